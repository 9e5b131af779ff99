// How soon endpoints answer, as this worker sees it: those that do not may not take all of its slots.

/** An endpoint whose last attempt took longer, or that keeps one waiting for longer, is slow. */
const SLOW_MS = 1_000
/** So many endpoints are remembered; the ones that were used least lately are forgotten. */
const MOST_REMEMBERED = 10_000

export type Pace = {
  /** An attempt begins in so many milliseconds; the returned function ends it. */
  begin(endpoint_id: string, in_ms: number): () => void
  /** When the last attempt at it began, or null, on the clock of `performance.now()`. */
  lastAt(endpoint_id: string): number | null
  /** Whether it has lately answered soon. */
  isProven(endpoint_id: string): boolean
  /** How many attempts are under way at endpoints of which that is not known. */
  unproven(): number
}

export function createPace(): Pace {
  type Seen = { last_at: number; last_ms: number | null; open: Set<{ began_at: number }> }
  const seen = new Map<string, Seen>()
  const open = new Set<Seen>()

  function isSoon({ last_ms, open: attempts }: Seen): boolean {
    if (last_ms === null || last_ms > SLOW_MS) return false
    // The oldest comes first.
    const [oldest] = attempts
    return oldest === undefined || performance.now() - oldest.began_at < SLOW_MS
  }

  function forget(): void {
    for (const [id, one] of seen) {
      if (seen.size <= MOST_REMEMBERED) return
      if (one.open.size === 0) seen.delete(id)
    }
  }

  return {
    begin(endpoint_id, in_ms) {
      const one: Seen = seen.get(endpoint_id) ?? { last_at: 0, last_ms: null, open: new Set() }
      seen.delete(endpoint_id)
      seen.set(endpoint_id, one)
      forget()
      const attempt = { began_at: performance.now() + in_ms }
      one.last_at = attempt.began_at
      one.open.add(attempt)
      open.add(one)
      return () => {
        one.last_ms = performance.now() - attempt.began_at
        one.open.delete(attempt)
        if (one.open.size === 0) open.delete(one)
      }
    },
    lastAt: (endpoint_id) => seen.get(endpoint_id)?.last_at ?? null,
    isProven(endpoint_id) {
      const one = seen.get(endpoint_id)
      return one !== undefined && isSoon(one)
    },
    unproven: () => Array.from(open).reduce((sum, one) => (isSoon(one) ? sum : sum + one.open.size), 0),
  }
}
