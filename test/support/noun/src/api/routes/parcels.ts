// Routes of parcels.
import { findParcels } from '#domain/parcels/find.ts'
import type { Parcel } from '#domain/parcels/parcel.ts'
import { finding, type Answers } from '../accept.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { createParcelRoute } from './parcels/create.ts'
import { readParcelRoutes } from './parcels/read.ts'

export function parcelRoutes(app: RouteApp, context: RouteContext): void {
  const { sql } = context
  const answers: Answers<Parcel> = {
    find: finding('find_parcel', (asked) => findParcels(sql, asked), 'parcel_not_found'),
    pathOf: ({ id }) => `/v1/parcels/${id}`,
    idsOf: ({ id }) => ({ parcel_id: id }),
  }
  createParcelRoute(app, context, answers)
  readParcelRoutes(app, context, answers)
}
