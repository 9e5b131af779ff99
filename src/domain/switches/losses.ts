// Which switches of the database can have lost changes.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** How long what was lost is reported at the latest after a switch, even if lists of providers cannot be read. */
const MAX_WAIT_FOR_LISTS = '15 minutes'

/** Whether the switch `s` can have lost changes. A planned move and a complete failover cannot. */
export function mayHaveLost(sql: Sql | Tx): Fragment {
  return sql`(s.recorded_at is not null and s.newest_at < s.switched_at)`
}

/**
 * Whether what the switch `s` lost can be reported: what the providers list is applied, or has been waited for long
 * enough.
 */
export function canReportLosses(sql: Sql | Tx): Fragment {
  return sql`(s.lists_read_at is not null or s.recorded_at < now() - ${MAX_WAIT_FOR_LISTS}::interval)`
}
