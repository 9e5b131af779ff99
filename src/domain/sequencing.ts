// The sequencer's statements: each committed event gets its position in its tenant's feed.
import { isRolledBack, type Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { isServerInUse } from './switches/holds.ts'

/** What was sequenced of a tenant. `more`: the tenant has more events without a sequence. */
type SequencedEvents = {
  tenant_id: string
  events: number
  deliveries: number
  more: boolean
  trace_contexts: string[] | null
}

/** An event is older when it becomes visible only if its transaction took longer, which is rare: see `settings.ts`. */
const RECENT = '1 minute'

/**
 * Assigns the next sequences to about `limit` events at most, and creates their deliveries. Returns the counts per
 * tenant, and the trace context of each traced event. Undefined while another process assigns sequences, and after a
 * deadlock with an erasure: the next call continues. `only_recent`: only events of the last minute, which costs less
 * while an old snapshot keeps deleted rows.
 */
export async function sequenceEvents(
  sql: Sql,
  limit: number,
  { only_recent = false }: { only_recent?: boolean } = {},
): Promise<SequencedEvents[] | undefined> {
  const since = only_recent ? sql`now() - ${RECENT}::interval` : sql`'-infinity'`
  try {
    const tenants = await sql<SequencedEvents[]>`
      select tenant_id, events, deliveries, more, traces as trace_contexts from sequence_events(${limit}, ${since})
      where ${isServerInUse(sql)}`
    return tenants.some(({ tenant_id }) => tenant_id === null) ? undefined : tenants
  } catch (error) {
    if (isRolledBack(error)) return undefined
    throw error
  }
}

/** The age in seconds of the oldest event of any tenant without a sequence; 0 without any. */
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
    select coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as age_s from first`
  return row!.age_s
}
