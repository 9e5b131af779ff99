// Routes that read parcels: retrieve and explain.
import { z } from 'zod'
import { parcelSchema, type Parcel } from '#domain/parcels/parcel.ts'
import { listTimeline, timelineEntrySchema } from '#domain/timeline.ts'
import type { ResourceReader } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, pageQuery, route } from '../../route.ts'

export function readParcelRoutes(
  app: RouteApp,
  { runList }: RouteContext,
  { find }: ResourceReader<Parcel>,
): void {
  app.get(
    '/v1/parcels/:id',
    route({
      area: 'parcels',
      scope: 'parcels:read',
      operation_id: 'getParcel',
      summary: 'Retrieve a parcel',
      params: idParams,
      response: { 200: parcelSchema },
      errors: ['parcel_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await find({ tenant_id, id, job_id: null })).resource,
  )

  app.get(
    '/v1/parcels/:id/timeline',
    route({
      area: 'parcels',
      scope: 'parcels:read',
      operation_id: 'getParcelTimeline',
      summary: 'Retrieve the timeline of a parcel',
      params: idParams,
      querystring: pageQuery,
      response: { 200: z.array(timelineEntrySchema) },
      errors: ['parcel_not_found'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { id } = request.params
      await find({ tenant_id, id, job_id: null })
      return await runList(request, reply, (lists_sql) =>
        listTimeline(lists_sql, { tenant_id, resource: 'parcel', resource_id: id }, request.query),
      )
    },
  )
}
