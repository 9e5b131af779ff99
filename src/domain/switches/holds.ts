// What waits since a switch of the database. `hold_jobs` in 0023_failing_lists.sql decides what is held.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { CALLS } from '#jobs/index.ts'
import type { CallDefinition } from '#jobs/job.ts'

/** The operations that wait while `lineage.hold` is `payouts`, and while it is `creations`, as SQL. */
const PAYOUTS = operationsAsSql(['payouts'])
const CREATIONS = operationsAsSql(['payouts', 'creations'])

function operationsAsSql(held_with: CallDefinition['held_with'][]): string {
  const names = CALLS.flatMap((call) => (held_with.includes(call.held_with) ? [`'${call.operation}'`] : []))
  return `(${names.join(', ')})`
}

/**
 * The row of the server on record, if the processes have found out since its start that the database did not go back in
 * time, and if it is not sealed. Without the row, nothing may be claimed.
 */
export function serverInUse(sql: Sql | Tx): Fragment {
  return sql`
    (select l.hold, l.holds_messages_before from lineage l
    where l.server_started_at = pg_postmaster_start_time() and l.timeline = current_timeline() and l.seal is null)`
}

/** Whether work may be claimed from the server. */
export function isServerInUse(sql: Sql | Tx): Fragment {
  return sql`exists (select from ${serverInUse(sql)} server)`
}

/** Whether the job `j` waits, by the columns of `server`. */
export function isHeldBy(sql: Sql | Tx): Fragment {
  return waits(sql, { hold: sql`server.hold`, messages_before: sql`server.holds_messages_before` })
}

/** Whether the job `j` waits. */
export function isHeld(sql: Sql | Tx): Fragment {
  // Each subselect is evaluated once for each statement.
  return waits(sql, {
    hold: sql`(select l.hold from lineage l)`,
    messages_before: sql`(select l.holds_messages_before from lineage l)`,
  })
}

function waits(
  sql: Sql | Tx,
  { hold, messages_before }: { hold: Fragment; messages_before: Fragment },
): Fragment {
  return sql`(
    (${hold} is not null or ${messages_before} is not null)
    and (case ${hold}
        when 'all' then j.queue <> 'notifications'
        when 'creations' then j.operation in ${sql.unsafe(CREATIONS)}
        when 'payouts' then j.operation in ${sql.unsafe(PAYOUTS)} end
      or (j.queue = 'messages' and j.created_at < ${messages_before})) is true)`
}

/**
 * Whether all jobs of a queue wait. Scans leave such a queue out, because requests are accepted meanwhile: looking for
 * one job that does not wait would read all of them.
 */
export function isQueueHeld(sql: Sql | Tx, queue: Fragment): Fragment {
  return sql`(
    select l.seal is not null or (l.hold = 'all' and ${queue} <> 'notifications') is true from lineage l)`
}

/** Whether the job `j` waits, or all jobs do because the database is sealed. */
export function isHeldOrSealed(sql: Sql | Tx): Fragment {
  return sql`((select l.seal is not null from lineage l) or ${isHeld(sql)})`
}

/**
 * When jobs last stopped waiting since a switch or a seal, as far as it is recorded; null if none ever waited. Times in
 * the future do not count: otherwise nothing would be late until then.
 */
export function waitEndedAt(sql: Sql | Tx): Fragment {
  return sql`(
    select greatest(case when l.unsealed_at <= now() then l.unsealed_at end, (
      select max(ended.at) from database_switches s cross join lateral (
        values (s.recorded_at), (s.released_at), (s.lists_read_at), (s.lists_waived_at), (s.discarded_at)) ended(at)
      where ended.at <= now())) from lineage l)`
}

/** Since when the due job `j` can be claimed: it is late from then on, not from `run_at`. Null while it waits. */
export function claimableSince(sql: Sql | Tx): Fragment {
  return sql`case when not ${isHeldOrSealed(sql)} then greatest(j.run_at, j.lease_until, ${waitEndedAt(sql)}) end`
}

/** Whether payouts wait: one that looks unsent may be the repetition of a lost one that was sent. */
export function payoutsWait(sql: Sql | Tx): Fragment {
  return sql`(select l.hold is not null from lineage l)`
}

/** Whether deliveries may be claimed. */
export function mayDeliver(sql: Sql | Tx): Fragment {
  return sql`exists (select from ${serverInUse(sql)} server where server.hold is distinct from 'all')`
}
