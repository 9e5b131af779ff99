// Fault of postgres.js (3.0.0 to 3.4.9): a pool that ends while a connection opens loses that connection, which stays
// open. Workaround: a replaced pool ends a moment later, when its connections are open. Patch for upstream:
// upstream/lost-connections.patch.
import type { Sql } from '../db.ts'

/** After this time the connections of a pool are open or have failed. */
const END_DELAY_MS = 1_000

/** Ends a replaced pool. Its statements have `drain_timeout_s` seconds to finish; then they are rejected. */
export function endReplacedPool(pool: Sql, drain_timeout_s: number): void {
  setTimeout(() => void pool.end({ timeout: drain_timeout_s }).catch(() => {}), END_DELAY_MS).unref()
}
