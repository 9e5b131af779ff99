// How long a part or a server that died is away, and what people are told of it.

/** Doubled each time it dies again, until it has run for a while. */
const INITIAL_DELAY_MS = 200
const MAX_DELAY_MS = 5_000
const STABLE_AFTER_MS = 30_000

/**
 * For one part or server. What is returned takes what happened, a sentence, and how long it had run before that, in
 * milliseconds; it tells `tell` and returns the pause before the next start, in milliseconds.
 */
export function createRestartDelays(
  notify: (line: string) => void,
): (what: string, ran_ms: number) => number {
  let next_ms = INITIAL_DELAY_MS
  return (what, ran_ms) => {
    const delay_ms = ran_ms > STABLE_AFTER_MS ? INITIAL_DELAY_MS : next_ms
    next_ms = Math.min(2 * delay_ms, MAX_DELAY_MS)
    notify(`${what} It is started again in ${delay_ms / 1000} s.`)
    return delay_ms
  }
}
