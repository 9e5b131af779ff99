// What comes in swarms is told once a second, with how many were not.

const EVERY_MS = 1_000

/** Calls `say` at most once a second; `untold`: how often it was not called since. */
export function seldom<Given extends unknown[]>(
  say: (untold: number, ...given: Given) => void,
): (...given: Given) => void {
  let told_at = -Infinity
  let untold = 0
  return (...given) => {
    if (performance.now() - told_at < EVERY_MS) {
      untold += 1
      return
    }
    told_at = performance.now()
    say(untold, ...given)
    untold = 0
  }
}
