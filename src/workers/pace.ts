// How fast endpoints answer this worker. Slow endpoints may not use all of its slots.

/**
 * The time after which an attempt is slow. An endpoint is slow if its last attempt was slow, or its oldest open attempt
 * already is.
 */
const SLOW_MS = 1_000
/** The maximum number of tracked endpoints; the least recently used are evicted. */
const MAX_ENDPOINTS = 10_000

export type Pace = {
  /** Records an attempt that begins in `in_ms` milliseconds; the returned function ends it. */
  begin(endpoint_id: string, in_ms: number): () => void
  /** When the last attempt at the endpoint began, on the clock of `performance.now()`; null if unknown. */
  lastAt(endpoint_id: string): number | null
  /** Whether the endpoint answered its last attempt fast, and no open attempt is slow. */
  isProven(endpoint_id: string): boolean
  /** The number of open attempts at endpoints that are not proven. */
  unproven(): number
}

export function createPace(): Pace {
  type EndpointState = { last_at: number; last_ms: number | null; open: Set<{ began_at: number }> }
  const states = new Map<string, EndpointState>()
  const busy = new Set<EndpointState>()

  function isFast({ last_ms, open: attempts }: EndpointState): boolean {
    if (last_ms === null || last_ms > SLOW_MS) return false
    // The oldest attempt is the first.
    const [oldest] = attempts
    return oldest === undefined || performance.now() - oldest.began_at < SLOW_MS
  }

  function evict(): void {
    for (const [id, state] of states) {
      if (states.size <= MAX_ENDPOINTS) return
      if (state.open.size === 0) states.delete(id)
    }
  }

  return {
    begin(endpoint_id, in_ms) {
      const state: EndpointState = states.get(endpoint_id) ?? { last_at: 0, last_ms: null, open: new Set() }
      states.delete(endpoint_id)
      states.set(endpoint_id, state)
      evict()
      const attempt = { began_at: performance.now() + in_ms }
      state.last_at = attempt.began_at
      state.open.add(attempt)
      busy.add(state)
      return () => {
        state.last_ms = performance.now() - attempt.began_at
        state.open.delete(attempt)
        if (state.open.size === 0) busy.delete(state)
      }
    },
    lastAt: (endpoint_id) => states.get(endpoint_id)?.last_at ?? null,
    isProven(endpoint_id) {
      const state = states.get(endpoint_id)
      return state !== undefined && isFast(state)
    },
    unproven: () => Array.from(busy).reduce((sum, state) => (isFast(state) ? sum : sum + state.open.size), 0),
  }
}
