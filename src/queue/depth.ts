// Watches how many BullMQ jobs wait in each queue. While a queue is full, no wake-ups are sent, and jobs wait in
// Postgres only.
import type { Backend } from './backend.ts'
import { withTimeout } from '#core/timeout.ts'
import { depth_interval_ms, max_depth } from './settings.ts'

/**
 * Returns a function that reports if a queue is full, by its last known depth, and refreshes an old depth in the
 * background.
 */
export function watchDepths(backend: Pick<Backend, 'depth' | 'limit_ms'>): (queue: string) => boolean {
  const depths = new Map<string, { at: number; full: boolean }>()

  async function readDepth(queue: string, was_full: boolean): Promise<void> {
    const full = await withTimeout(backend.depth(queue), backend.limit_ms).then(
      (depth) => depth > max_depth,
      () => was_full,
    )
    depths.set(queue, { at: performance.now(), full })
  }

  return (queue) => {
    const { at, full } = depths.get(queue) ?? { at: -Infinity, full: false }
    if (performance.now() - at >= depth_interval_ms) {
      depths.set(queue, { at: performance.now(), full })
      void readDepth(queue, full)
    }
    return full
  }
}
