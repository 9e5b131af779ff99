// Fault of postgres.js (3.0.0 to 3.4.9): if a pool ends while one of its connections is opening, or waiting for the
// next attempt to open, the pool loses this connection, which stays open. Workaround: a replaced pool ends a moment
// later, when its connections are open, and closes the remaining ones after its end. Patch for upstream:
// upstream/lost-connections.patch.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '../db.ts'

/** After this time the connections of a pool are open or have failed. */
const END_DELAY_MS = 1_000
/** The driver's maximum backoff, and some time for timers that are late. */
const BACKOFF_MS = 1_500

/** The driver's types lack this method. */
type ClosablePool = Sql & { close(): Promise<void> }

/**
 * Ends a replaced pool. Its statements have `drain_timeout_s` seconds to finish; then they are rejected.
 * `connect_limit_ms`: the time limit of an attempt to connect.
 */
export function endReplacedPool(pool: Sql, drain_timeout_s: number, connect_limit_ms: number): void {
  setTimeout(
    () => void endAndClose(pool, drain_timeout_s, connect_limit_ms).catch(() => {}),
    END_DELAY_MS,
  ).unref()
}

async function endAndClose(pool: Sql, drain_timeout_s: number, connect_limit_ms: number): Promise<void> {
  await pool.end({ timeout: drain_timeout_s })
  // After this time the last attempts of the pool are over.
  await sleep(BACKOFF_MS + connect_limit_ms, undefined, { ref: false })
  await (pool as ClosablePool).close()
}
