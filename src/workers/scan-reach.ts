// Scans for due work that have become slow, because a session holds an old snapshot: see `domain/scan-reach.ts`.
import { reportScan, type ReducibleScan } from '#core/metrics/jobs.ts'
import type { ScanReach } from '#domain/scan-reach.ts'

/** A scan is slow if it takes longer than this, and than `ROW_MS` for each row that it finds. */
const SLOW_MS = 25
const ROW_MS = 2
/** The pause after a slow scan, in times of its duration, and its limit. */
const PAUSE_OF_SCAN = 50
const MAX_PAUSE_MS = 10_000

/**
 * The pause after a scan that repeatedly takes this long: that of the shorter of the last two. One may be slow because
 * its statement was planned, or waited for a connection.
 */
export function createScanPause(max_ms = MAX_PAUSE_MS): (took_ms: number) => number {
  let last_ms = 0
  return (took_ms) => {
    const usual_ms = Math.min(last_ms, took_ms)
    last_ms = took_ms
    return Math.min(PAUSE_OF_SCAN * usual_ms, max_ms)
  }
}

/**
 * After slow scans of all rows, the next scans read only recent rows, until a pause has passed. While `mustReadAll`
 * returns true, scans read all rows, and do not count. The pause ends then: what waits after that is not recent.
 */
export function createScanReach(
  scan: ReducibleScan,
  mustReadAll = () => false,
): {
  next(): ScanReach
  /** Call after a scan that found `rows`. */
  measured(reach: ScanReach, took_ms: number, rows: number): void
} {
  const pauseAfter = createScanPause()
  let all_due_at = -Infinity
  const isReduced = () => !mustReadAll() && performance.now() < all_due_at
  reportScan(scan, isReduced)
  return {
    next() {
      if (mustReadAll()) all_due_at = -Infinity
      return isReduced() ? 'recent' : 'all'
    },
    measured(reach, took_ms, rows) {
      if (reach !== 'all' || mustReadAll()) return
      const idle_ms = took_ms - ROW_MS * rows
      all_due_at = performance.now() + pauseAfter(idle_ms > SLOW_MS ? idle_ms : 0)
    },
  }
}
