// Watches how many BullMQ jobs wait in each queue. While a queue is full nobody rings for it, and jobs wait in
// Postgres only.
import type { Backend } from './backend.ts'
import { within } from './late.ts'
import { depth_interval_ms, max_depth } from './settings.ts'

/** Says at once whether a queue is full, by its last known depth, and reads the depth again if that is too old. */
export function watchDepths(backend: Pick<Backend, 'depth' | 'limit_ms'>): (queue: string) => boolean {
  const seen = new Map<string, { at: number; full: boolean }>()

  async function look(queue: string, before: boolean): Promise<void> {
    const full = await within(backend.depth(queue), backend.limit_ms).then(
      (depth) => depth > max_depth,
      () => before,
    )
    seen.set(queue, { at: performance.now(), full })
  }

  return (queue) => {
    const { at, full } = seen.get(queue) ?? { at: -Infinity, full: false }
    if (performance.now() - at >= depth_interval_ms) {
      seen.set(queue, { at: performance.now(), full })
      void look(queue, full)
    }
    return full
  }
}
