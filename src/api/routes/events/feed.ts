// The route of the feed of events. A request may wait for events.
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGates } from '#core/gate.ts'
import { eventSchema, findLastSequence, listFeed, type FeedQuery, type FeedRow } from '#domain/feed.ts'
import { feedRestarted, findFeedGap } from '#domain/feed-restarts.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import type { EventViews } from '../../event-answers.ts'
import { eventTypes } from '../../event-types.ts'
import { preferredWait } from '../../prefer.ts'
import { asInteger, EXAMPLE_ID, idText, linkAfter, pageQuery, pageSize, route } from '../../route.ts'
import type { Hints } from '../../wait.ts'
import { CAPTURED_EVENT } from './examples.ts'

/** The maximum number of requests of one key that wait for events. */
const WAITING_OF_A_KEY = 20

const NO_SEQUENCE = `must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`

const feedQuery = z.strictObject({
  after: z
    .string()
    .regex(/^\d{1,16}$/, { error: NO_SEQUENCE })
    .transform(Number)
    .pipe(z.int({ error: NO_SEQUENCE }).min(0))
    .default(0)
    .meta({
      description:
        'Only events with a higher `sequence`. Pass the `sequence` of the last event that you have processed.',
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

export function feedRoute(app: RouteApp, context: RouteContext, views: EventViews): void {
  const { runList, feed_waiters } = context
  const waiting = createGates({
    running: WAITING_OF_A_KEY,
    queue: {
      waiting: 0,
      wait_ms: 0,
      refuse: () =>
        new AppError('rate_limited', {
          limited_by: 'waits',
          retry_after_s: 1,
          message: `Too many requests wait for events: at most ${WAITING_OF_A_KEY} of a key may wait at once.`,
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
        'The feed of events. Every event has a `sequence`, from 1 and without gaps except [restarts](/docs/guides/events#restarts), and an event that enters the feed later has a higher `sequence`. So you miss no event if you always request the events after the last event that you have. `Link` always points to the next page. An event enters the feed a moment after it happened. It is retained for 90 days, or as long as your operator has configured. `created_from` and `created_to` filter by the time of the event; the order is still that of the sequences. A request that waits is answered with the first event that matches all filters.',
      querystring: feedQuery,
      response: { 200: z.array(eventSchema) },
      waits: 'for_events',
      examples: { answer: CAPTURED_EVENT },
      errors: ['feed_restarted'],
    }),
    async (request, reply) => {
      const { query, credentials } = request
      const { tenant_id, key_id, livemode } = credentials
      const preferred = preferredWait(request)
      const wait_ms = preferred?.wait_ms ?? 0
      if (preferred !== undefined) reply.header('preference-applied', preferred.applied)
      // Listen before reading, so that no hint about a new event is missed (see `wait.ts`).
      using hints = feed_waiters.listen(wait_ms > 0 ? tenant_id : null, wait_ms)
      const find = createFeedReader(tenant_id, query, wait_ms > 0)
      const read = (is_repeat: boolean) =>
        runList(
          request,
          reply,
          async (lists_sql) => {
            const rows = await find(lists_sql, is_repeat)
            return await views.list(lists_sql, rows, livemode)
          },
          { is_repeat, willRepeat: (found) => found.length === 0 },
        )
      let events = await read(false)
      if (events.length === 0 && wait_ms > 0)
        events = await waiting(key_id, () => readOnHints(request, hints, () => read(true)))
      reply.header('link', linkAfter(request.url, String(events.at(-1)?.sequence ?? query.after)))
      return events
    },
  )
}

/**
 * Creates a function that reads a page of the feed. If the request waits, it is called repeatedly; `is_repeat` is false
 * for the first call. Events that the filters exclude are not read again. Throws `feed_restarted`.
 */
function createFeedReader(
  tenant_id: string,
  query: FeedQuery,
  waits: boolean,
): (sql: Sql, is_repeat: boolean) => Promise<FeedRow[]> {
  let { after } = query

  /** A page that begins with the next event follows a position that exists. */
  async function checkPosition(sql: Sql, found: FeedRow[]): Promise<FeedRow[]> {
    const [first] = found
    if (first?.sequence === query.after + 1 && first.type !== 'feed.restarted') return found
    const gap = await findFeedGap(sql, tenant_id, query.after)
    if (gap !== undefined) throw feedRestarted(query.after, gap)
    return found
  }

  return async (sql, is_repeat) => {
    if (!waits) return await checkPosition(sql, await listFeed(sql, tenant_id, query))
    // The sequence is read before the events: an event that enters the feed between the two reads is found by the next
    // read.
    const last = await findLastSequence(sql, tenant_id)
    const found =
      is_repeat && last <= after
        ? []
        : await listFeed(sql, tenant_id, { ...query, after, near_end: is_repeat })
    if (found.length === 0) after = Math.max(after, last)
    return is_repeat && found.length === 0 && last >= query.after ? found : await checkPosition(sql, found)
  }
}

/** Reads again at each hint, until there is an event, the wait ends or the caller disconnects. */
async function readOnHints<Found>(
  request: FastifyRequest,
  hints: Hints,
  read: () => Promise<Found[]>,
): Promise<Found[]> {
  const { socket } = request.raw
  const leave = () => hints[Symbol.dispose]()
  if (socket.destroyed) leave()
  socket.once('close', leave)
  try {
    let found: Found[] = []
    while (found.length === 0 && (await hints.next())) found = await read()
    return found
  } finally {
    socket.off('close', leave)
  }
}
