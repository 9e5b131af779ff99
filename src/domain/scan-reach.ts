// How far back a statement reads due rows. While a session holds an old snapshot, an index keeps an entry for each row
// that was due since, and a statement that begins with the oldest reads all of them.
import type { Fragment, Sql } from '#core/db.ts'

/** `recent`: only rows that became due within the last seconds. */
export type ScanReach = 'all' | 'recent'

const RECENT_S = 10

/** Whether a statement with this reach reads a row that became due at `due_at`. */
export function isInReach(sql: Sql, reach: ScanReach, due_at: Fragment): Fragment {
  return reach === 'all' ? sql`true` : sql`${due_at} > now() - ${RECENT_S} * interval '1 second'`
}
