// Fault of postgres.js (3.0.0 to 3.4.9): if a pool ends while one of its connections is opening, or waiting for the
// next attempt to open, the pool loses this connection, which stays open. Workaround: a connection on which something
// runs ends a moment later, when it is open, and is closed once more after its end. Patch for upstream:
// upstream/lost-connections.patch.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '../db.ts'

/** After this time a connection is open or has failed. */
const END_DELAY_MS = 1_000
/** The time in seconds that a statement has to finish. */
const DRAIN_TIMEOUT_S = 2
/** The driver's maximum backoff, and some time for timers that are late. */
const BACKOFF_MS = 1_500

/** The driver's types lack this method. */
type ClosableDriver = Sql & { close(): Promise<void> }

/**
 * Ends a driver on whose connection a statement may run. It has a moment to finish; then it is rejected.
 * `connect_limit_ms`: the time limit of an attempt to connect.
 */
export function drainDriver(driver: Sql, connect_limit_ms: number): void {
  setTimeout(() => void endAndClose(driver, connect_limit_ms).catch(() => {}), END_DELAY_MS).unref()
}

async function endAndClose(driver: Sql, connect_limit_ms: number): Promise<void> {
  await driver.end({ timeout: DRAIN_TIMEOUT_S })
  // After this time the last attempt to connect is over.
  await sleep(BACKOFF_MS + connect_limit_ms, undefined, { ref: false })
  await (driver as ClosableDriver).close()
}
