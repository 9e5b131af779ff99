// Limits how often something is logged, and counts how often it was not.

/** Calls `report` at most once in `every_ms`; `suppressed`: how many calls were left out since the last one. */
export function throttle<Args extends unknown[]>(
  report: (suppressed: number, ...args: Args) => void,
  every_ms = 1_000,
): (...args: Args) => void {
  let reported_at = -Infinity
  let suppressed = 0
  return (...args) => {
    if (performance.now() - reported_at < every_ms) {
      suppressed += 1
      return
    }
    reported_at = performance.now()
    report(suppressed, ...args)
    suppressed = 0
  }
}
