// The overview of a tenant, the search of the palette, and what belongs to the story of a row.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { dateTime } from '#core/time.ts'
import { findRows, foundRowSchema } from '#domain/operations/find-row.ts'
import { findOverview, overviewSchema } from '#domain/operations/overview.ts'
import { findStory, storySchema } from '#domain/operations/story.ts'
import { inTenant } from '../context.ts'

const params = z.strictObject({ id: z.uuid() })
/** A stretch of time; without it, all of it. */
const stretch = z.strictObject({ since: dateTime.optional(), before: dateTime.optional() })
const querystring = z.strictObject({ q: z.string().trim().min(1).max(255) })

export function overviewRoutes(root: FastifyInstance): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/api/overview',
    { schema: { response: { 200: overviewSchema } }, config: { look: 'readOverview' } },
    async (request) => {
      const { tenant, is_operator } = inTenant(request)
      return findOverview(request.sql, tenant.id, { for_operator: is_operator })
    },
  )
  app.get(
    '/api/stories/:id',
    {
      schema: { params, querystring: stretch, response: { 200: storySchema } },
      config: { look: 'readStory' },
    },
    async (request) => findStory(request.sql, inTenant(request).tenant.id, request.params.id, request.query),
  )
  app.get(
    '/api/find',
    { schema: { querystring, response: { 200: z.array(foundRowSchema) } }, config: { look: 'search' } },
    async (request) => findRows(request.sql, inTenant(request).tenant.id, request.query.q),
  )
}
