// Routes of parcels.
import { findParcels } from '#domain/parcels/find.ts'
import type { Parcel } from '#domain/parcels/parcel.ts'
import { batchedFind, type ResourceReader } from '../accept.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { createParcelRoute } from './parcels/create.ts'
import { readParcelRoutes } from './parcels/read.ts'

export function parcelRoutes(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const reader: ResourceReader<Parcel> = {
    find: batchedFind('find_parcel', (requested) => findParcels(sql, requested), 'parcel_not_found'),
    pathOf: ({ id }) => `/v1/parcels/${id}`,
    idsOf: ({ id }) => ({ parcel_id: id }),
  }
  createParcelRoute(app, context, reader)
  readParcelRoutes(app, context, reader)
}
