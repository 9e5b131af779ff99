// The feed: the events of a tenant in the order of their sequences, without a gap.
import { z } from 'zod'
import { isRolledBack, unionAll, type Fragment, type Sql } from '#core/db.ts'
import { anyJson } from '#core/json.ts'
import { timestamp } from '#core/time.ts'
import type { StoredEvent } from './event-data.ts'
import { EVENTS, typesMatching } from './events.ts'
import { filedBy, NOUNS, rootOf, subjectOf } from './subjects.ts'

/** An event in answers. */
export const eventSchema = z
  .object({
    id: z
      .uuid()
      .meta({ description: 'The id of the event.', example: '0198f6f2-2b1a-7000-8000-123456789abc' }),
    sequence: z.int().nullable().meta({
      description:
        "Its position in the tenant's feed, from 1 and without gaps. Null for a moment after it happened.",
      example: 17,
    }),
    type: z.string().meta({ description: 'What happened.', example: 'payment.captured' }),
    subject_type: z
      .string()
      .meta({ description: 'The type of the resource that it is about.', example: 'payment' }),
    subject_id: z
      .uuid()
      .meta({ description: 'The id of that resource.', example: '0198f6f0-1234-7000-8000-123456789abc' }),
    data: z.record(z.string(), anyJson).meta({
      description:
        'The resource as it was then. Personal data is erased when the customer is deleted; addresses, texts and outputs are null once their resource no longer has them.',
      example: { id: '0198f6f0-1234-7000-8000-123456789abc', status: 'captured' },
    }),
    created_at: timestamp.meta({ description: 'When it happened.' }),
  })
  .meta({ id: 'FeedEvent', description: 'An event: something that happened to a resource.' })

export type FeedEvent = z.output<typeof eventSchema>
/** An event as it is read: its data is not complete yet. */
export type FeedRow = Omit<FeedEvent, 'data'> & StoredEvent

/**
 * By so much the order of the sequences may differ from that of time: an event gets its sequence when it is committed, and
 * no transaction of ours lasts that long.
 */
const DISORDER = '5 minutes'

export type FeedQuery = {
  /** Only those with a higher sequence. */
  after: number
  limit: number
  /** A type, `<noun>.*` or `*`. */
  type?: string
  /** Only those of this resource. */
  subject_id?: string
  /** Created at or after. */
  created_from?: string | undefined
  /** Created before. */
  created_to?: string | undefined
  /** Few have a higher sequence, so they are read by that, whatever is asked for. */
  few?: boolean
}

/**
 * Gives the next sequences to at most about `most` events, and makes the deliveries of these. Returns how many each tenant
 * got, and nothing while another process does this, or where it was in the way of an erasure: then it is for the next call.
 */
export async function sequenceEvents(
  sql: Sql,
  most: number,
): Promise<{ tenant_id: string; events: number; deliveries: number; more: boolean }[]> {
  try {
    return await sql<{ tenant_id: string; events: number; deliveries: number; more: boolean }[]>`
      select tenant_id, events, deliveries, more from sequence_events(${most})`
  } catch (error) {
    if (isRolledBack(error)) return []
    throw error
  }
}

/** The events of a tenant by their sequences, the lowest first. Events without one are not among them. */
export async function listFeed(sql: Sql, tenant_id: string, query: FeedQuery): Promise<FeedRow[]> {
  const { limit, type, subject_id, few = false } = query
  const types = type === undefined ? null : typesMatching(type)
  const later = laterIn(sql, tenant_id, query, await rangeOf(sql, tenant_id, query))
  const next = sql`order by e.sequence limit ${limit}`
  if (subject_id !== undefined && few)
    return await sql<FeedRow[]>`
      select ${eventColumns(sql)} from (select * from events e where ${later} order by e.sequence offset 0) e
      where e.subject_id in (select id from (${filedIds(sql, tenant_id, subject_id)}) filed)
        and ${ownId(sql)} = ${subject_id}::text and (${types}::text[] is null or e.type = any(${types}))
      ${next}`
  if (subject_id !== undefined)
    return await sql<FeedRow[]>`
      select ${eventColumns(sql)} from (${filedIds(sql, tenant_id, subject_id)}) filed
      -- All that is filed there is read: by its sequences the feed would be, which is longer.
      cross join lateral (select * from events e where ${later} and e.subject_id = filed.id offset 0) e
      where ${ownId(sql)} = ${subject_id}::text and (${types}::text[] is null or e.type = any(${types}))
      ${next}`
  if (types === null || types.length === EVENTS.length)
    return await sql<FeedRow[]>`select ${eventColumns(sql)} from events e where ${later} ${next}`
  // Each type has its own range of an index, so that what is rare is found among millions of others.
  return await sql<FeedRow[]>`
    select ${eventColumns(sql)} from unnest(${types}::text[]) as wanted(type)
    cross join lateral (select * from events e where ${later} and e.type = wanted.type ${next}) e
    ${next}`
}

type Range = { first: number; last: number | null }

/** The sequences between which all events of these times are: above `first` and, unless more may come, up to `last`. */
async function rangeOf(
  sql: Sql,
  tenant_id: string,
  { created_from, created_to, few = false }: FeedQuery,
): Promise<Range> {
  if (few || (created_from === undefined && created_to === undefined)) return { first: 0, last: null }
  const from = sql`${created_from ?? null}::timestamptz - ${DISORDER}::interval`
  const to = sql`${created_to ?? null}::timestamptz + ${DISORDER}::interval`
  const [range] = await sql<Range[]>`
    select ${created_from === undefined ? sql`0` : positionAt(sql, from)} as first,
      ${created_to === undefined ? sql`null` : sql`nullif(${positionAt(sql, to)}, s.last_sequence)`} as last
    from event_sequences s where s.tenant_id = ${tenant_id}`
  return range ?? { first: 0, last: null }
}

/** The condition for what `query` may list of the events `e`, beside their type and subject. */
function laterIn(
  sql: Sql,
  tenant_id: string,
  { after, created_from, created_to }: FeedQuery,
  { first, last }: Range,
): Fragment {
  return sql`e.sequenced and e.tenant_id = ${tenant_id} and e.sequence > ${Math.max(after, first)}
    ${last === null ? sql`` : sql`and e.sequence <= ${last}`}
    ${created_from === undefined ? sql`` : sql`and e.created_at >= ${created_from}`}
    ${created_to === undefined ? sql`` : sql`and e.created_at < ${created_to}`}`
}

/**
 * Between the sequences of a tenant `s`, where its events begin to be of this time or later: the highest sequence below,
 * found by halves, since no index has the time of events.
 */
function positionAt(sql: Sql, time: Fragment): Fragment {
  return sql`(
    with recursive halves as (
      select 0::bigint as low, s.last_sequence as high
      union all
      select case when next.created_at < ${time} then next.sequence else halves.low end,
        case when next.created_at < ${time} then halves.high else halves.low + (halves.high - halves.low) / 2 end
      from halves left join lateral (
        select e.sequence, e.created_at from events e
        where e.sequenced and e.tenant_id = s.tenant_id and e.sequence > halves.low + (halves.high - halves.low) / 2
        order by e.sequence limit 1
      ) next on true
      where halves.low < halves.high
    )
    select high from halves where low >= high)`
}

/** The events of a tenant by their sequences, the highest first: those below `before`. Events without one are left out. */
export async function listLatestEvents(
  sql: Sql,
  tenant_id: string,
  { before, limit, type, subject_id }: Omit<FeedQuery, 'after' | 'few'> & { before?: number | undefined },
): Promise<FeedRow[]> {
  const types = type === undefined ? null : typesMatching(type)
  const earlier = sql`
    e.sequenced and e.tenant_id = ${tenant_id} ${before === undefined ? sql`` : sql`and e.sequence < ${before}`}`
  const next = sql`order by e.sequence desc limit ${limit}`
  if (subject_id !== undefined)
    return await sql<FeedRow[]>`
      select ${eventColumns(sql)} from (${filedIds(sql, tenant_id, subject_id)}) filed
      cross join lateral (select * from events e where ${earlier} and e.subject_id = filed.id offset 0) e
      where ${ownId(sql)} = ${subject_id}::text and (${types}::text[] is null or e.type = any(${types}))
      ${next}`
  if (types === null || types.length === EVENTS.length)
    return await sql<FeedRow[]>`select ${eventColumns(sql)} from events e where ${earlier} ${next}`
  return await sql<FeedRow[]>`
    select ${eventColumns(sql)} from unnest(${types}::text[]) as wanted(type)
    cross join lateral (select * from events e where ${earlier} and e.type = wanted.type ${next}) e
    ${next}`
}

/** One event, also one that has no sequence yet; undefined when the tenant has none of this id. */
export async function findEvent(sql: Sql, tenant_id: string, id: string): Promise<FeedRow | undefined> {
  const rows = await sql<FeedRow[]>`
    select ${eventColumns(sql)} from events e where e.tenant_id = ${tenant_id} and e.id = ${id}`
  return rows[0]
}

/**
 * The events that are filed under a row, those of its parts too, oldest first, and also those without a sequence. Those of
 * one moment are never parted, so that the moment can be the cursor: there may be a few more than `limit`.
 */
export async function listFiledEvents(
  sql: Sql,
  tenant_id: string,
  subject_id: string,
  { after = '-infinity', limit }: { after?: string; limit: number },
): Promise<FeedRow[]> {
  return await sql<FeedRow[]>`
    select ${eventColumns(sql)} from (
      select * from events e
      where e.tenant_id = ${tenant_id} and e.subject_id = ${subject_id} and e.created_at > ${after}
      offset 0
    ) e
    order by e.created_at fetch first ${limit} rows with ties`
}

/** The last sequence of a tenant; 0 when it has no events. */
export async function findLastSequence(sql: Sql, tenant_id: string): Promise<number> {
  const [row] = await sql<{ last_sequence: number }[]>`
    select last_sequence from event_sequences where tenant_id = ${tenant_id}`
  return row?.last_sequence ?? 0
}

/** The last sequence of each of these tenants; a tenant without events is left out. */
export async function findLastSequences(
  sql: Sql,
  tenant_ids: string[],
): Promise<{ tenant_id: string; last_sequence: number }[]> {
  return await sql<{ tenant_id: string; last_sequence: number }[]>`
    select tenant_id, last_sequence from event_sequences where tenant_id = any(${tenant_ids}::uuid[])`
}

function eventColumns(sql: Sql): Fragment {
  return sql`
    e.id, e.tenant_id, e.sequence, e.type, split_part(e.type, '.', 1) as subject_type, ${ownId(sql)} as subject_id,
    e.data as stored, e.created_at`
}

/** The id of what the event `e` is of: a refund's is filed under its payment. */
function ownId(sql: Sql): Fragment {
  return sql`coalesce(e.data ->> 'id', e.subject_id::text)`
}

/** The ids under which events of this resource can be filed: its own, or that of what it is a part of. */
function filedIds(sql: Sql, tenant_id: string, id: string): Fragment {
  const parts = NOUNS.filter((noun) => rootOf(noun) !== noun).map(
    (noun) => sql`
      select ${sql(`r.${filedBy(noun)}`)} from ${sql(subjectOf(noun).table)} r
      where r.tenant_id = ${tenant_id} and r.id = ${id}`,
  )
  return unionAll(sql, [sql`select ${id}::uuid as id`, ...parts])
}
