// Limits how often a line is logged, and counts the suppressed lines.

/** Calls `report` at most once in `every_ms`; `suppressed`: the number of calls suppressed since the last report. */
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
