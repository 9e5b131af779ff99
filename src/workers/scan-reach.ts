// Scans for due work that have become slow, because a session holds an old snapshot: see `domain/scan-reach.ts`.
import type { ScanReach } from '#domain/scan-reach.ts'

/** A scan is slow if it takes longer than this. */
const SLOW_MS = 25
/** The pause after a slow scan of all rows, in times of its duration. */
export const PAUSE_OF_SCAN = 50

/**
 * After two slow scans of all rows, the next scans read only recent rows, until the pause has passed. One may be slow
 * because its statement was planned.
 */
export function createScanReach(): {
  next(): ScanReach
  measured(reach: ScanReach, took_ms: number): void
} {
  let all_due_at = -Infinity
  let last_ms = 0
  return {
    next: () => (performance.now() < all_due_at ? 'recent' : 'all'),
    measured(reach, took_ms) {
      if (reach !== 'all') return
      const usual_ms = Math.min(last_ms, took_ms)
      if (usual_ms > SLOW_MS) all_due_at = performance.now() + PAUSE_OF_SCAN * usual_ms
      last_ms = took_ms
    },
  }
}
