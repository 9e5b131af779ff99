// Fault of postgres.js (3.0.0 to 3.4.9): a pool that ends while a connection is being made loses it; the connection is made all the
// same, and stays open. Healed by ending a replaced pool a moment later, when its connections are made.
// To be sent upstream: upstream/lost-connections.patch.
import type { Sql } from '../db.ts'

/** By then the connections of a pool are made, or have failed. */
const END_DELAY_MS = 1_000

/** Ends a pool that was replaced. Its statements have `drain_timeout_s` to finish; those that still wait then are rejected. */
export function endReplacedPool(pool: Sql, drain_timeout_s: number): void {
  setTimeout(() => void pool.end({ timeout: drain_timeout_s }).catch(() => {}), END_DELAY_MS).unref()
}
