// Detects overload: an event loop that is late repeatedly.
import { everyTick } from '#core/ticks.ts'

const INTERVAL_MS = 500
const MAX_LATENESS_MS = 1000
const MAX_LATE_CHECKS = 2

/**
 * `overloaded` returns true if the event loop was more than a second late at each of the last two checks. A single
 * delay, for example by a slow start or a frozen machine, does not count.
 */
export function watchEventLoop(): { overloaded: () => boolean; close: () => void } {
  let last_check_at = performance.now()
  let late_checks = 0
  const stop = everyTick(() => {
    const now = performance.now()
    late_checks = now - last_check_at > INTERVAL_MS + MAX_LATENESS_MS ? late_checks + 1 : 0
    last_check_at = now
  }, INTERVAL_MS)
  return { overloaded: () => late_checks >= MAX_LATE_CHECKS, close: stop }
}
