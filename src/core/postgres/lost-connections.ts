// Fault of postgres.js (3.0.0 to 3.4.9): if a pool ends while one of its connections is opening, or waiting for the
// next attempt to open, the pool loses this connection, which stays open. Workaround: a replaced pool ends a moment
// later, when its connections are open, and closes the remaining ones after its end. Patch for upstream:
// upstream/lost-connections.patch.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '../db.ts'

/** After this time the connections of a pool are open or have failed. */
const END_DELAY_MS = 1_000
/** After this time the last attempts of an ended pool are over: the driver's maximum backoff and connect timeout. */
const CLOSE_DELAY_MS = 6_500

/** The driver's types lack this method. */
type ClosablePool = Sql & { close(): Promise<void> }

/** Ends a replaced pool. Its statements have `drain_timeout_s` seconds to finish; then they are rejected. */
export function endReplacedPool(pool: Sql, drain_timeout_s: number): void {
  setTimeout(() => void endAndClose(pool, drain_timeout_s).catch(() => {}), END_DELAY_MS).unref()
}

async function endAndClose(pool: Sql, drain_timeout_s: number): Promise<void> {
  await pool.end({ timeout: drain_timeout_s })
  await sleep(CLOSE_DELAY_MS, undefined, { ref: false })
  await (pool as ClosablePool).close()
}
