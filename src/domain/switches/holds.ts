// What waits since a switch of the database. `hold_jobs` in 0019_switches.sql decides what is held.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** The operations that wait while `lineage.hold` is `payouts`: what they create cannot be undone. */
const PAYOUTS = `('payout', 'refund')`
/** The operations that also wait while it is `creations`. */
const CREATIONS = `('authorize', 'complete', 'payout', 'refund', 'top_up', 'verify')`

/** Whether the server is the one on record, so that work may be claimed. */
export function isOnLineage(sql: Sql | Tx): Fragment {
  // A subselect is evaluated once for each statement.
  return sql`(select is_on_lineage())`
}

/** Whether the job `j` waits. */
export function isHeld(sql: Sql | Tx): Fragment {
  return sql`(
    (select l.hold is not null or l.holds_messages_before is not null from lineage l)
    and (case (select l.hold from lineage l)
        when 'all' then j.queue <> 'notifications'
        when 'creations' then j.operation in ${sql.unsafe(CREATIONS)}
        when 'payouts' then j.operation in ${sql.unsafe(PAYOUTS)} end
      or (j.queue = 'messages' and j.created_at < (select l.holds_messages_before from lineage l))) is true)`
}

/** Whether payouts wait: one that looks unsent may be the repetition of a lost one that was sent. */
export function payoutsWait(sql: Sql | Tx): Fragment {
  return sql`(select l.hold is not null from lineage l)`
}

/** Whether deliveries may be claimed. */
export function mayDeliver(sql: Sql | Tx): Fragment {
  return sql`(select is_on_lineage() and hold is distinct from 'all' from lineage)`
}
