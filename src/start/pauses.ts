// How long a part or a server that died is away, and what people are told of it.

/** Doubled each time it dies again, until it has run for a while. */
const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 5_000
const RUNS_WELL_MS = 30_000

/**
 * For one part or server. What is returned takes what happened, a sentence, and how long it had run before that, in
 * milliseconds; it tells `tell` and returns the pause before the next start, in milliseconds.
 */
export function createPauses(tell: (line: string) => void): (what: string, ran_ms: number) => number {
  let next_ms = FIRST_PAUSE_MS
  return (what, ran_ms) => {
    const pause_ms = ran_ms > RUNS_WELL_MS ? FIRST_PAUSE_MS : next_ms
    next_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS)
    tell(`${what} It is started again in ${pause_ms / 1000} s.`)
    return pause_ms
  }
}
