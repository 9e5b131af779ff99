// The feed: the events of a tenant in the order of their sequences. The only gaps are those of `feed_restarts`.
import { z } from 'zod'
import { unionAll, type Fragment, type Sql } from '#core/db.ts'
import { anyJson } from '#core/json.ts'
import { timestamp } from '#core/time.ts'
import type { StoredEvent } from './event-data.ts'
import { EVENTS, matchEventTypes } from './events.ts'
import { rootIdColumn, RESOURCE_NAMES, rootOf, resourceOf } from './resources.ts'

/** An event in answers. */
export const eventSchema = z
  .object({
    id: z
      .uuid()
      .meta({ description: 'The id of the event.', example: '0198f6f2-2b1a-7000-8000-123456789abc' }),
    sequence: z.int().nullable().meta({
      description:
        "Its position in the tenant's feed, from 1; the next event has the next number, except after a restart of the feed. Null until it is assigned, a moment after the event.",
      example: 17,
    }),
    type: z.string().meta({ description: 'What happened.', example: 'payment.captured' }),
    subject_type: z
      .string()
      .meta({ description: 'The type of the resource that changed.', example: 'payment' }),
    subject_id: z
      .uuid()
      .meta({ description: 'The id of the resource.', example: '0198f6f0-1234-7000-8000-123456789abc' }),
    data: z.record(z.string(), anyJson).meta({
      description:
        'The resource as it was then. Personal data is erased when the customer is deleted; addresses, texts and outputs are null once they are erased from their resource.',
      example: { id: '0198f6f0-1234-7000-8000-123456789abc', livemode: true, status: 'captured' },
    }),
    created_at: timestamp.meta({ description: 'When the event happened.' }),
  })
  .meta({ id: 'FeedEvent', description: 'An event: something that happened to a resource.' })

export type FeedEvent = z.output<typeof eventSchema>
/** An event as it is stored, before its data is completed. */
export type FeedRow = Omit<FeedEvent, 'data'> & StoredEvent

/**
 * The longest time by which an event with a higher sequence can be older than an event with a lower sequence:
 * sequences are assigned after the commit, and no transaction lasts that long.
 */
const MAX_SEQUENCE_DISORDER = '5 minutes'

export type FeedQuery = {
  /** Only events with a higher sequence. */
  after: number
  limit: number
  /** A type, `<resource>.*` or `*`. */
  type?: string
  /** Only events of this resource. */
  subject_id?: string
  /** Only events created at or after this time. */
  created_from?: string | undefined
  /** Only events created before this time. */
  created_to?: string | undefined
  /**
   * Whether few events have a higher sequence than `after`: the query then reads all of them, in the order of
   * sequences, regardless of its filters.
   */
  near_end?: boolean
}

/** The events of a tenant in ascending order of their sequences. Events without a sequence are omitted. */
export async function listFeed(sql: Sql, tenant_id: string, query: FeedQuery): Promise<FeedRow[]> {
  const { limit, type, subject_id, near_end = false } = query
  const condition = matchesFeedQuery(sql, tenant_id, query, await sequenceRangeOf(sql, tenant_id, query))
  const order_and_limit = sql`order by f.sequence limit ${limit}`
  if (subject_id !== undefined && near_end) {
    const types = type === undefined ? null : matchEventTypes(type)
    return await sql<FeedRow[]>`
      select ${eventColumns(sql)}
      from (select * from feed_entries f where ${condition} order by f.sequence offset 0) f ${joinEvent(sql)}
      where e.subject_id in (select id from (${rootIds(sql, tenant_id, subject_id)}) root)
        and ${resourceIdOf(sql)} = ${subject_id}::text and (${types}::text[] is null or e.type = any(${types}))
      ${order_and_limit}`
  }
  return await readEvents(sql, tenant_id, query, condition, order_and_limit)
}

type SequenceRange = { first: number; last: number | null }

/**
 * The range of sequences that contains all events of these times: above `first`, up to `last` (null: no upper bound).
 */
async function sequenceRangeOf(
  sql: Sql,
  tenant_id: string,
  { created_from, created_to, near_end = false }: FeedQuery,
): Promise<SequenceRange> {
  if (near_end || (created_from === undefined && created_to === undefined)) return { first: 0, last: null }
  const from = sql`${created_from ?? null}::timestamptz - ${MAX_SEQUENCE_DISORDER}::interval`
  const to = sql`${created_to ?? null}::timestamptz + ${MAX_SEQUENCE_DISORDER}::interval`
  // The event of a restart can be any time younger than the events that follow it: they waited in a backup.
  const restarts = sql`from feed_restarts r where r.tenant_id = s.tenant_id and r.created_at`
  const first = sql`
    least(${sequenceAt(sql, from)}, (select min(r.next_sequence) - 1 ${restarts} >= ${created_from ?? null}))`
  const last = sql`
    greatest(${sequenceAt(sql, to)}, (select max(r.next_sequence) ${restarts} < ${created_to ?? null}))`
  const [range] = await sql<SequenceRange[]>`
    select ${created_from === undefined ? sql`0` : first} as first,
      ${created_to === undefined ? sql`null` : sql`nullif(${last}, s.last_sequence)`} as last
    from event_sequences s where s.tenant_id = ${tenant_id}`
  return range ?? { first: 0, last: null }
}

/** The condition of `query` on the entries `f`, except for type and subject. */
function matchesFeedQuery(
  sql: Sql,
  tenant_id: string,
  { after, created_from, created_to }: FeedQuery,
  { first, last }: SequenceRange,
): Fragment {
  return sql`f.tenant_id = ${tenant_id} and f.sequence > ${Math.max(after, first)}
    ${last === null ? sql`` : sql`and f.sequence <= ${last}`}
    ${created_from === undefined ? sql`` : sql`and f.created_at >= ${created_from}`}
    ${created_to === undefined ? sql`` : sql`and f.created_at < ${created_to}`}`
}

/**
 * The highest sequence of the tenant `s` among its events before `time`, except restarts of the feed. A binary search
 * over sequences, because no index contains the time of events.
 */
function sequenceAt(sql: Sql, time: Fragment): Fragment {
  return sql`(
    with recursive search as (
      select 0::bigint as low, s.last_sequence as high
      union all
      select case when next.created_at < ${time} then next.sequence else search.low end,
        case when next.created_at < ${time} then search.high else search.low + (search.high - search.low) / 2 end
      from search left join lateral (
        select f.sequence, f.created_at from feed_entries f
        where f.tenant_id = s.tenant_id and f.sequence > search.low + (search.high - search.low) / 2
          and f.type <> 'feed.restarted'
        order by f.sequence limit 1
      ) next on true
      where search.low < search.high
    )
    select high from search where low >= high)`
}

/**
 * The events of a tenant in descending order of their sequences, below `before`. Events without a sequence are
 * omitted.
 */
export async function listLatestEvents(
  sql: Sql,
  tenant_id: string,
  {
    before,
    limit,
    type,
    subject_id,
  }: Omit<FeedQuery, 'after' | 'near_end'> & { before?: number | undefined },
): Promise<FeedRow[]> {
  const condition = sql`
    f.tenant_id = ${tenant_id} ${before === undefined ? sql`` : sql`and f.sequence < ${before}`}`
  const order_and_limit = sql`order by f.sequence desc limit ${limit}`
  return await readEvents(sql, tenant_id, { type, subject_id }, condition, order_and_limit)
}

/**
 * The events of a tenant whose entries `f` match `condition`, in this order. With types or a subject, only their ranges
 * of the indexes are read.
 */
async function readEvents(
  sql: Sql,
  tenant_id: string,
  { type, subject_id }: Pick<FeedQuery, 'type' | 'subject_id'>,
  condition: Fragment,
  order_and_limit: Fragment,
): Promise<FeedRow[]> {
  const types = type === undefined ? null : matchEventTypes(type)
  if (subject_id !== undefined)
    return await sql<FeedRow[]>`
      select ${eventColumns(sql)} from (${rootIds(sql, tenant_id, subject_id)}) root
      -- The offset makes the planner read all events of the root instead of the longer feed.
      cross join lateral (
        select * from events e where e.sequenced and e.tenant_id = ${tenant_id} and e.subject_id = root.id offset 0) e
      cross join lateral (select * from feed_entries f where ${condition} and ${isEntryOf(sql)} offset 0) f
      where ${resourceIdOf(sql)} = ${subject_id}::text and (${types}::text[] is null or e.type = any(${types}))
      ${order_and_limit}`
  if (types === null || types.length === EVENTS.length)
    return await sql<FeedRow[]>`
      select ${eventColumns(sql)} from feed_entries f ${joinEvent(sql)} where ${condition} ${order_and_limit}`
  // Each type has its own range of the index, so rare types are found fast among millions of events.
  return await sql<FeedRow[]>`
    select f.* from unnest(${types}::text[]) as wanted(type)
    cross join lateral (
      select ${eventColumns(sql)} from feed_entries f ${joinEvent(sql)}
      where ${condition} and f.type = wanted.type ${order_and_limit}) f
    ${order_and_limit}`
}

/** One event, with or without a sequence; undefined when the tenant has no event of this id. */
export async function findEvent(sql: Sql, tenant_id: string, id: string): Promise<FeedRow | undefined> {
  const rows = await sql<FeedRow[]>`
    select ${eventColumns(sql)} from events e left join lateral (
      select * from feed_entries f where ${isEntryOf(sql)} offset 0) f on true
    where e.tenant_id = ${tenant_id} and e.id = ${id}`
  return rows[0]
}

/**
 * The events of a root row and its children, oldest first, with or without a sequence. Events of the same time are
 * never split between pages, so the time can be the cursor: there may be a few more than `limit`.
 */
export async function listEventsOfRoot(
  sql: Sql,
  tenant_id: string,
  subject_id: string,
  { after = '-infinity', limit }: { after?: string; limit: number },
): Promise<FeedRow[]> {
  return await sql<FeedRow[]>`
    select ${eventColumns(sql)} from (
      select * from (
        select * from events e
        where e.tenant_id = ${tenant_id} and e.subject_id = ${subject_id} and e.created_at > ${after}
        offset 0
      ) e
      order by e.created_at fetch first ${limit} rows with ties
    ) e
    left join lateral (select * from feed_entries f where ${isEntryOf(sql)} offset 0) f on true
    order by e.created_at`
}

/** The last sequence of a tenant; 0 when it has no events. */
export async function findLastSequence(sql: Sql, tenant_id: string): Promise<number> {
  const [row] = await sql<{ last_sequence: number }[]>`
    select last_sequence from event_sequences where tenant_id = ${tenant_id}`
  return row?.last_sequence ?? 0
}

/** The last sequence of each of these tenants, except tenants without events. */
export async function findLastSequences(
  sql: Sql,
  tenant_ids: string[],
): Promise<{ tenant_id: string; last_sequence: number }[]> {
  return await sql<{ tenant_id: string; last_sequence: number }[]>`
    select tenant_id, last_sequence from event_sequences where tenant_id = any(${tenant_ids}::uuid[])`
}

/** The event `e` of each entry `f`, found by its key whatever the statistics are. */
function joinEvent(sql: Sql): Fragment {
  return sql`cross join lateral (
    select * from events e
    where e.sequenced and e.tenant_id = f.tenant_id and e.id = f.event_id and e.created_at = f.created_at offset 0) e`
}

/** Whether the entry `f` is that of the event `e`. */
function isEntryOf(sql: Sql): Fragment {
  return sql`f.tenant_id = e.tenant_id and f.event_id = e.id and f.created_at = e.created_at`
}

/** The columns of the event `e` with its entry `f`. */
function eventColumns(sql: Sql): Fragment {
  return sql`
    e.id, e.tenant_id, f.sequence, e.type, split_part(e.type, '.', 1) as subject_type,
      ${resourceIdOf(sql)} as subject_id,
    e.data as stored, e.created_at`
}

/** The id of the event's own resource. The column `subject_id` has the root's id: the payment of a refund. */
function resourceIdOf(sql: Sql): Fragment {
  return sql`coalesce(e.data ->> 'id', e.subject_id::text)`
}

/** The ids under which the events of this resource can be stored: its own id, and its root's. */
function rootIds(sql: Sql, tenant_id: string, id: string): Fragment {
  const roots = RESOURCE_NAMES.filter((resource) => rootOf(resource) !== resource).map(
    (resource) => sql`
      select ${sql(`r.${rootIdColumn(resource)}`)} from ${sql(resourceOf(resource).table)} r
      where r.tenant_id = ${tenant_id} and r.id = ${id}`,
  )
  return unionAll(sql, [sql`select ${id}::uuid as id`, ...roots])
}
