// Judges events: each is in its tenant's feed once and in order, each follower has read it, and each subscribed
// endpoint has accepted it.
import { isDeepStrictEqual } from 'node:util'
import type { Json, Sql } from '#core/db.ts'
import type { Vault } from '#core/secrets.ts'
import { completeEventData, findCompletionRows, MAX_LISTED_VALUE_BYTES } from '#domain/event-data.ts'
import { payloadOf } from '#domain/deliveries/payload.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Problem } from '#test/invariants.ts'
import type { System } from '../system.ts'
import type { Switch } from '../record.ts'
import { judgeDeliveries, type Delivery } from './deliveries.ts'
import { judgeFeeds, type FeedEvent } from './feeds.ts'

const TIMEOUT_MS = 15_000

export type EventCounts = {
  events: number
  feeds: number
  endpoints: number
  deliveries: number
  /** Requests that receivers have read, and how many of them repeated an event. */
  requests: number
  repeated: number
}

/** True while an event is on its way into the feed, to a follower or to an endpoint. */
export async function hasOpenEvents({ sql, followers }: Pick<System, 'sql' | 'followers'>): Promise<boolean> {
  const [row] = await sql<{ open: boolean }[]>`
    select exists (select from event_outbox) or exists (select from webhook_due)
      or exists (select from jobs where queue = 'deliveries' and finished_at is null) as open`
  if (row!.open) return true
  const last = await sql<{ tenant_id: string; last_sequence: number }[]>`
    select tenant_id, last_sequence from event_sequences`
  const lastOf = new Map(last.map(({ tenant_id, last_sequence }) => [tenant_id, last_sequence]))
  return followers.some((follower) => follower.after() < (lastOf.get(follower.tenant_id) ?? 0))
}

/** Waits for events on their way before it judges. */
export async function judgeAllEvents(
  system: System,
  switches: Switch[],
): Promise<{ problems: Problem[]; counts: EventCounts }> {
  const { sql, followers, receivers } = system
  const deadline = performance.now() + TIMEOUT_MS
  while (performance.now() < deadline && (await hasOpenEvents(system))) await sleep(200)
  const { events, deliveries } = await sql.begin('isolation level repeatable read', async (tx) => ({
    events: await tx<SentEvent[]>`
      select e.id, e.tenant_id, f.sequence, e.type, coalesce(e.data ->> 'id', e.subject_id::text) as subject_id, e.created_at, e.data as stored
      from events e
      left join feed_entries f on f.tenant_id = e.tenant_id and f.event_id = e.id and f.created_at = e.created_at
      order by e.tenant_id, f.sequence`,
    deliveries: await tx<Delivery[]>`
      select endpoint_id, event_id, status, attempts, last_error from webhook_deliveries`,
  }))
  const endpoints = [...receivers.endpoints.values()]
  const { arrivals } = receivers
  return {
    problems: [
      ...judgeFeeds(events, followers),
      ...followers.flatMap((follower) => follower.problems),
      ...judgeDeliveries({ events, endpoints, deliveries, arrivals, switches }),
      ...(switches.length === 0 ? receivers.problems : receivers.problems.filter(isNoNewSequence)),
      ...(await bodyDifferences(system, events, switches.length > 0)),
    ],
    counts: {
      events: events.length,
      feeds: new Set(events.map(({ tenant_id }) => tenant_id)).size,
      endpoints: endpoints.length,
      deliveries: deliveries.length,
      requests: arrivals.length,
      repeated: arrivals.length - new Set(arrivals.map((each) => `${each.endpoint} ${each.event_id}`)).size,
    },
  }
}

type SentEvent = FeedEvent & { stored: Json }

/**
 * False for an event that arrived again with another sequence: after a switch, an event gets a new one if the database
 * has lost the first.
 */
function isNoNewSequence({ before, body }: Problem): boolean {
  if (typeof before !== 'string' || typeof body !== 'string') return true
  const [one, other] = [before, body].map((text) => JSON.parse(text) as object)
  return !isDeepStrictEqual({ ...one, sequence: null }, { ...other, sequence: null })
}

/** The sent bodies must match the events. */
async function bodyDifferences(
  { sql, vault, receivers }: { sql: Sql; vault: Vault } & Pick<System, 'receivers'>,
  events: SentEvent[],
  may_have_new_sequence: boolean,
): Promise<Problem[]> {
  const sent = events.filter(({ id }) => receivers.bodies.has(id))
  const rows = await findCompletionRows(sql, sent, MAX_LISTED_VALUE_BYTES)
  return sent.flatMap((event, nth) => {
    const { id, subject_id, created_at } = event
    const row = rows[nth]!
    const body = receivers.bodies.get(id)!
    // All tenants are live.
    const data = completeEventData(event, row, vault)
    const expected = payloadOf({ ...event, livemode: true, data, omits: row?.omits })
    const [reported, happened] = [body, expected].map((text) => JSON.parse(text) as { timestamp: string })
    const ignored = { timestamp: null, ...(may_have_new_sequence && { sequence: null }) }
    const same =
      isDeepStrictEqual({ ...reported, ...ignored }, { ...happened, ...ignored }) &&
      Date.parse(reported!.timestamp) === Date.parse(created_at)
    return same ? [] : [{ problem: 'a sent event differs from the stored one', id, subject_id, body }]
  })
}
