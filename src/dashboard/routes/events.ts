// Reads that /v1 lacks: events with the newest first, and figures of webhook endpoints over time.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { createEventViews } from '#api/event-answers.ts'
import { eventTypes } from '#api/event-types.ts'
import { linkBefore } from '#api/route.ts'
import { deliverySchema } from '#domain/deliveries/delivery.ts'
import { listDeliveriesOfEvent } from '#domain/deliveries/find.ts'
import { eventSchema, listLatestEvents } from '#domain/feed.ts'
import {
  endpointHourSchema,
  endpointSeriesSchema,
  findEndpointHours,
  findEndpointSeries,
} from '#domain/webhook-endpoints/series.ts'
import { requireTenant, type DashboardContext } from '../context.ts'

const latestQuery = z.strictObject({
  /** Only events with a lower sequence. */
  before: z.coerce.number().int().positive().optional(),
  type: eventTypes.optional(),
  subject_id: z.uuid().toLowerCase().optional(),
  limit: z.coerce.number().int().min(1).max(100).default(25),
})
const params = z.strictObject({ id: z.uuid().toLowerCase() })

export function eventFigureRoutes(root: FastifyInstance, context: DashboardContext): void {
  const answers = createEventViews(context)
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get(
    '/api/events',
    {
      schema: { querystring: latestQuery, response: { 200: z.array(eventSchema) } },
      config: { audit_action: 'listEvents' },
    },
    async (request, reply) => {
      const { id, mode } = requireTenant(request).tenant
      const found = await listLatestEvents(request.sql, id, request.query)
      const events = await answers.list(request.sql, found, mode === 'live')
      const last = events.at(-1)?.sequence
      if (last && last > 1 && events.length >= request.query.limit)
        reply.header('link', linkBefore(request.url, String(last)))
      return events
    },
  )
  app.get(
    '/api/events/:id/deliveries',
    {
      schema: { params, response: { 200: z.array(deliverySchema) } },
      config: { audit_action: 'listEventDeliveries' },
    },
    async (request) =>
      listDeliveriesOfEvent(request.sql, requireTenant(request).tenant.id, request.params.id),
  )
  app.get(
    '/api/webhook_endpoints/series',
    {
      schema: { response: { 200: z.array(endpointSeriesSchema) } },
      config: { audit_action: 'listWebhookSeries' },
    },
    async (request) => findEndpointSeries(request.sql, requireTenant(request).tenant.id),
  )
  app.get(
    '/api/webhook_endpoints/:id/hours',
    {
      schema: { params, response: { 200: z.array(endpointHourSchema) } },
      config: { audit_action: 'readWebhookFigures' },
    },
    async (request) => findEndpointHours(request.sql, requireTenant(request).tenant.id, request.params.id),
  )
}
