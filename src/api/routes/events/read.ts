// Routes that read a single event and the events of a payment.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { dateTime } from '#core/time.ts'
import { eventSchema, findEvent, listEventsOfRoot } from '#domain/feed.ts'
import { findPayment } from '#domain/payments/find.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import type { EventViews } from '../../event-answers.ts'
import { idParams, linkAfter, pageSize, route } from '../../route.ts'
import { CAPTURED_EVENT } from './examples.ts'

const paymentQuery = z.strictObject({
  after: dateTime.optional().meta({ description: 'The `created_at` of the last item of the previous page.' }),
  limit: pageSize(25),
})

export function readEventRoutes(app: RouteApp, { sql, runList }: RouteContext, views: EventViews): void {
  app.get(
    '/v1/events/:id',
    route({
      area: 'events',
      scope: 'events:read',
      operation_id: 'getEvent',
      summary: 'Retrieve an event',
      description: 'Also returns an event that is not in the feed yet: its `sequence` is null.',
      params: idParams,
      large: 'expected',
      response: { 200: eventSchema },
      examples: { answer: CAPTURED_EVENT },
      errors: ['event_not_found'],
    }),
    async ({ credentials: { tenant_id, livemode }, params: { id } }) => {
      const event = await findEvent(sql, tenant_id, id)
      if (event === undefined) throw new AppError('event_not_found')
      return await views.one(sql, event, livemode)
    },
  )

  app.get(
    '/v1/payments/:id/events',
    route({
      area: 'payments',
      scope: 'payments:read',
      operation_id: 'listPaymentEvents',
      summary: 'List the events of a payment, oldest first',
      description:
        'Includes the events of its refunds and disputes, and events that are not in the feed yet. Events of the same moment come on the same page, so there may be a few more than `limit`.',
      params: idParams,
      querystring: paymentQuery,
      response: { 200: z.array(eventSchema) },
      examples: { answer: CAPTURED_EVENT },
      errors: ['payment_not_found'],
    }),
    async (request, reply) => {
      const { tenant_id, livemode } = request.credentials
      const { id } = request.params
      if ((await findPayment(sql, tenant_id, id)) === undefined) throw new AppError('payment_not_found')
      const events = await runList(request, reply, async (lists_sql) =>
        views.list(lists_sql, await listEventsOfRoot(lists_sql, tenant_id, id, request.query), livemode),
      )
      const last = events.at(-1)
      if (last !== undefined && events.length >= request.query.limit)
        reply.header('link', linkAfter(request.url, last.created_at))
      return events
    },
  )
}
