// Limits how often something is logged, and counts how often it was not.

/** Calls `say` at most once in `every_ms`; `suppressed`: how many calls were left out since the last one. */
export function seldom<Given extends unknown[]>(
  say: (suppressed: number, ...given: Given) => void,
  every_ms = 1_000,
): (...given: Given) => void {
  let told_at = -Infinity
  let suppressed = 0
  return (...given) => {
    if (performance.now() - told_at < every_ms) {
      suppressed += 1
      return
    }
    told_at = performance.now()
    say(suppressed, ...given)
    suppressed = 0
  }
}
