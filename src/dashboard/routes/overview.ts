// The overview of a tenant, the search of the command palette, and the timeline of a resource.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { dateTime } from '#core/time.ts'
import { findRows, foundRowSchema } from '#domain/operations/find-row.ts'
import { findOverview, overviewSchema } from '#domain/operations/overview.ts'
import { findTimelineData, timelineDataSchema } from '#domain/operations/timeline-data.ts'
import { requireTenant } from '../context.ts'

const params = z.strictObject({ id: z.uuid() })
/** The period of a timeline. Default: the complete timeline. */
const timeRange = z.strictObject({ since: dateTime.optional(), before: dateTime.optional() })
const querystring = z.strictObject({ q: z.string().trim().min(1).max(255) })

export function overviewRoutes(root: FastifyInstance): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/api/overview',
    { schema: { response: { 200: overviewSchema } }, config: { audit_action: 'readOverview' } },
    async (request) => {
      const { tenant, is_operator } = requireTenant(request)
      // The problems of the installation are those of live tenants.
      return findOverview(request.sql, tenant.id, { for_operator: is_operator && tenant.mode === 'live' })
    },
  )
  app.get(
    '/api/timelines/:id',
    {
      schema: { params, querystring: timeRange, response: { 200: timelineDataSchema } },
      config: { audit_action: 'readTimeline' },
    },
    async (request) =>
      findTimelineData(request.sql, requireTenant(request).tenant.id, request.params.id, request.query),
  )
  app.get(
    '/api/find',
    {
      schema: { querystring, response: { 200: z.array(foundRowSchema) } },
      config: { audit_action: 'search' },
    },
    async (request) => findRows(request.sql, requireTenant(request).tenant.id, request.query.q),
  )
}
