// Delays before a part or a server that died is restarted.

/**
 * The delay after the first crash. It is doubled with each further crash, up to MAX_DELAY_MS, until the process has
 * run for STABLE_AFTER_MS.
 */
const INITIAL_DELAY_MS = 200
const MAX_DELAY_MS = 5_000
const STABLE_AFTER_MS = 30_000

/**
 * Creates the delays of one part or server. The returned function takes a sentence that says what happened, and the
 * run time in milliseconds. It adds the delay to the sentence, passes the sentence to `notify`, and returns the delay
 * in milliseconds.
 */
export function createRestartDelays(
  notify: (line: string) => void,
): (what: string, ran_ms: number) => number {
  let next_ms = INITIAL_DELAY_MS
  return (what, ran_ms) => {
    const delay_ms = ran_ms > STABLE_AFTER_MS ? INITIAL_DELAY_MS : next_ms
    next_ms = Math.min(2 * delay_ms, MAX_DELAY_MS)
    notify(`${what} Restart in ${delay_ms / 1000} s.`)
    return delay_ms
  }
}
