// Routes of events: the feed of a tenant, one event, and the events of a payment.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGates } from '#core/gate.ts'
import { dateTime } from '#core/time.ts'
import {
  eventSchema,
  findEvent,
  findLastSequence,
  listFeed,
  listFiledEvents,
  type FeedRow,
} from '#domain/feed.ts'
import { findPayment } from '#domain/payments/find.ts'
import type { RouteContext } from '../context.ts'
import { createEventAnswers } from '../event-answers.ts'
import { eventTypes } from '../event-types.ts'
import { exampleOfEvent } from '../openapi/events.ts'
import { preferredWait } from '../prefer.ts'
import { asInteger, EXAMPLE_ID, idParams, idText, linkAfter, pageQuery, pageSize, route } from '../route.ts'

/** Requests of one key that wait for events at once. */
const WAITING_OF_A_KEY = 20

const CAPTURED_EVENT = { type: 'payment.captured', data: exampleOfEvent('payment.captured') }

const NO_SEQUENCE = `must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`

const feedQuery = z.strictObject({
  after: z
    .string()
    .regex(/^\d{1,16}$/, { error: NO_SEQUENCE })
    .transform(Number)
    .pipe(z.int({ error: NO_SEQUENCE }).min(0))
    .default(0)
    .meta({
      description: 'Only events with a higher `sequence`. Pass that of the last event that you have.',
      ...asInteger({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
      standard: 0,
      example: 17,
    }),
  limit: pageSize(25),
  type: eventTypes.optional().meta({
    description: 'Filter by type, or by all types of a resource: `payment.*`.',
    example: 'payment.*',
  }),
  subject_id: idText.optional().meta({ description: 'Filter by resource.', example: EXAMPLE_ID }),
  created_from: pageQuery.shape.created_from,
  created_to: pageQuery.shape.created_to,
})

const paymentQuery = z.strictObject({
  after: dateTime.optional().meta({ description: 'The `created_at` of the last item of the page before.' }),
  limit: pageSize(25),
})

export function eventRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists, feed_waiters } = context
  const answers = createEventAnswers(context)
  const app = root.withTypeProvider<ZodTypeProvider>()
  const waiting = createGates({
    running: WAITING_OF_A_KEY,
    queue: {
      waiting: 0,
      wait_ms: 0,
      refuse: () =>
        new AppError('rate_limited', {
          retry_after_s: 1,
          message: `Too many requests that wait for events: at most ${WAITING_OF_A_KEY} at once.`,
        }),
    },
  })

  app.get(
    '/v1/events',
    route({
      area: 'events',
      scope: 'events:read',
      operation_id: 'listEvents',
      summary: 'List events, oldest first',
      description:
        'The feed of events. Every event has a `sequence`, from 1 and without gaps, and an event that appears later never has a lower one. So if you always ask for the events after the last one you have, you miss nothing. `Link` always points to the next page. An event joins the feed a moment after it happened, and is kept for 90 days unless your operator chose otherwise. `created_from` and `created_to` select by the time when it happened, still in the order of the sequences, and who waits is answered by the first event that all filters allow.',
      querystring: feedQuery,
      response: { 200: z.array(eventSchema) },
      waits: 'for_more',
      examples: { answer: CAPTURED_EVENT },
      errors: [],
    }),
    async (request, reply) => {
      const { query, credentials } = request
      const { tenant_id, key_id } = credentials
      const preferred = preferredWait(request)
      const wait_ms = preferred?.wait_ms ?? 0
      if (preferred !== undefined) reply.header('preference-applied', preferred.applied)
      // Listen before reading, so that no hint is missed in between.
      using hints = feed_waiters.listen(wait_ms > 0 ? tenant_id : null, wait_ms)
      // What was looked at in vain is not looked at again.
      let { after } = query
      let again = false
      async function look(lists_sql: Sql): Promise<FeedRow[]> {
        if (wait_ms === 0) return await listFeed(lists_sql, tenant_id, query)
        // Before the events are read: one that joins the feed in between is looked at again.
        const last = await findLastSequence(lists_sql, tenant_id)
        if (again && last <= after) return []
        const found = await listFeed(lists_sql, tenant_id, { ...query, after, few: again })
        if (found.length === 0) after = Math.max(after, last)
        return found
      }
      const complete = async (lists_sql: Sql) => await answers.many(lists_sql, await look(lists_sql))
      const read = () =>
        lists(request, reply, complete, { again, looks_again: (found) => found.length === 0 })
      let events = await read()
      if (events.length === 0 && wait_ms > 0) {
        again = true
        events = await waiting(key_id, async () => {
          const { socket } = request.raw
          const leave = () => hints[Symbol.dispose]()
          if (socket.destroyed) leave()
          socket.once('close', leave)
          try {
            let found: typeof events = []
            while (found.length === 0 && (await hints.next())) found = await read()
            return found
          } finally {
            socket.off('close', leave)
          }
        })
      }
      reply.header('link', linkAfter(request.url, String(events.at(-1)?.sequence ?? query.after)))
      return events
    },
  )

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
    async ({ credentials: { tenant_id }, params: { id } }) => {
      const event = await findEvent(sql, tenant_id, id)
      if (event === undefined) throw new AppError('event_not_found')
      return await answers.one(sql, event)
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
      const { tenant_id } = request.credentials
      const { id } = request.params
      if ((await findPayment(sql, tenant_id, id)) === undefined) throw new AppError('payment_not_found')
      const events = await lists(request, reply, async (lists_sql) =>
        answers.many(lists_sql, await listFiledEvents(lists_sql, tenant_id, id, request.query)),
      )
      const last = events.at(-1)
      if (last !== undefined && events.length >= request.query.limit)
        reply.header('link', linkAfter(request.url, last.created_at))
      return events
    },
  )
}
