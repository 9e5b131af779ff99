// How much waits in a queue: more bells are not rung while it is full, and their rows wait in Postgres.
import type { Backend } from './backend.ts'
import { within } from './late.ts'
import { depth_interval_ms, max_depth } from './settings.ts'

/** Answers at once, by what was seen when it was asked before; a look is under way at most once in a while. */
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
