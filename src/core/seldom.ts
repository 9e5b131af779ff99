// What comes in swarms is told once in a while, with how many were not.

/** Calls `say` at most once in `every_ms`; `untold`: how often it was not called since. */
export function seldom<Given extends unknown[]>(
  say: (untold: number, ...given: Given) => void,
  every_ms = 1_000,
): (...given: Given) => void {
  let told_at = -Infinity
  let untold = 0
  return (...given) => {
    if (performance.now() - told_at < every_ms) {
      untold += 1
      return
    }
    told_at = performance.now()
    say(untold, ...given)
    untold = 0
  }
}
