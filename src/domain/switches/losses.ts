// Which switches of the database can have lost changes.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** How long what was lost is reported at the latest after a switch, even if lists of providers cannot be read. */
const MAX_WAIT_FOR_LISTS = '15 minutes'

/**
 * What is read or compared after a switch begins this long before the newest change: clocks differ, and what was under
 * way may have been lost.
 */
const LOOKBACK_S = 3600

/** The beginning of what is read after the switches `s`, in Unix seconds. */
export function readingSince(sql: Sql | Tx): Fragment {
  return sql`floor(extract(epoch from min(s.newest_at) - ${LOOKBACK_S} * interval '1 second'))::bigint`
}

/** The time from which rows are compared: an hour before the newest change. */
export function comparedSince(newest_at: string): string {
  return new Date(Date.parse(newest_at) - LOOKBACK_S * 1000).toISOString()
}

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
