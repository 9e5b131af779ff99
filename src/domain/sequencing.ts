// The sequencer's statements: each committed event gets its position in its tenant's feed.
import { isRolledBack, type Fragment, type Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { isOfMode } from './modes.ts'
import { isServerInUse } from './switches/holds.ts'

/** What was sequenced of a tenant. */
type SequencedEvents = {
  tenant_id: string
  events: number
  deliveries: number
  trace_contexts: string[] | null
}

/**
 * The recent rows of the outbox: those of events that were created at or after `since_s`, in Unix seconds. All rows are
 * recent on another server than `server`, also after a restart or switch (see `serverNow`), and before `seen_at_s`: the
 * clock was set back.
 */
export type RecentRows = { since_s: number; seen_at_s: number; server: string }

export const ALL_ROWS: RecentRows = { since_s: -Infinity, seen_at_s: 0, server: '' }

/**
 * Assigns the next sequences to about `limit` events at most of the `recent` rows, and creates their deliveries.
 * Returns the counts per tenant, and the trace context of each traced event. `is_complete`: no such event is left.
 * False, without tenants: another process assigns sequences, the server is not in use, or there was a deadlock. The
 * next call continues.
 */
export async function sequenceEvents(
  sql: Sql,
  limit: number,
  recent = ALL_ROWS,
): Promise<{ tenants: SequencedEvents[]; is_complete: boolean }> {
  try {
    const rows = await sql<(Omit<SequencedEvents, 'tenant_id'> & { tenant_id: string | null })[]>`
      select tenant_id, events, deliveries, traces as trace_contexts
      from sequence_events(${limit}, case
        when ${serverNow(sql)} = ${recent.server} and clock_timestamp() >= to_timestamp(${recent.seen_at_s}::float8)
        then to_timestamp(${recent.since_s}::float8) else '-infinity' end) where ${isServerInUse(sql)}`
    const tenants = rows.flatMap(({ tenant_id, ...row }) =>
      tenant_id === null ? [] : [{ tenant_id, ...row }],
    )
    return { tenants, is_complete: tenants.length < rows.length }
  } catch (error) {
    if (isRolledBack(error)) return { tenants: [], is_complete: false }
    throw error
  }
}

/** The start of the server, in Unix seconds, and the number of the last switch. As text: a number would lose digits. */
function serverNow(sql: Sql): Fragment {
  return sql`extract(epoch from pg_postmaster_start_time())::text || ' ' || (select l.last_switch::text from lineage l)`
}

/** `writers`: the transactions that write events and have not ended, at a time in Unix seconds. */
export type OpenWrites = { writers: string[]; at_s: number; server: string }

export async function findOpenWrites(sql: Sql): Promise<OpenWrites> {
  const [found] = await sql<OpenWrites[]>`
    select ${serverNow(sql)} as server, extract(epoch from clock_timestamp())::float8 as at_s, array(
      select virtualtransaction from pg_locks
      where locktype = 'relation' and relation = 'events'::regclass and mode = 'RowExclusiveLock' and granted
        and database = (select oid from pg_database where datname = current_database())) as writers`
  return found!
}

/** The age in seconds of the oldest event of any live tenant without a sequence; 0 without any. */
export async function findOldestUnsequencedAge(sql: Sql): Promise<number> {
  const [row] = await sql<{ age_s: number }[]>`
    with recursive first as (
      select ${LOWEST_ID}::uuid as tenant_id, null::timestamptz as created_at
      union all
      select next.tenant_id, next.created_at from first f cross join lateral (
        select o.tenant_id, o.created_at from event_outbox o where o.tenant_id > f.tenant_id
        order by o.tenant_id, o.created_at limit 1
      ) next
    )
    select coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as age_s from first
    where ${isOfMode(sql, sql`first.tenant_id`, true)}`
  return row!.age_s
}
