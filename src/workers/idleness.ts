// How long the worker has had nothing to do. Recurring work that needs no exact times runs less often then.

/** A worker is idle if it has begun and ended no job and sequenced no event for this long. */
const IDLE_AFTER_MS = 30_000
/** While the worker is idle, the intervals of recurring work are this many times as long, up to `MAX_INTERVAL_MS`. */
const IDLE_FACTOR = 6
const MAX_INTERVAL_MS = 30_000

export type Idleness = {
  /** Records that the worker has something to do. */
  recordWork(): void
  /** The interval of recurring work: `busy_ms`, and while the worker is idle longer, but at most `max_ms`. */
  interval(busy_ms: number, max_ms?: number): () => number
}

export function createIdleness(): Idleness {
  let worked_at = performance.now()
  return {
    recordWork() {
      worked_at = performance.now()
    },
    interval(busy_ms, max_ms = MAX_INTERVAL_MS) {
      const idle_ms = Math.max(busy_ms, Math.min(IDLE_FACTOR * busy_ms, max_ms))
      return () => (performance.now() - worked_at < IDLE_AFTER_MS ? busy_ms : idle_ms)
    },
  }
}
