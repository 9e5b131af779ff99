// The retry schedule of deliveries.

/** The maximum deviation from a delay, as a fraction. */
const JITTER = 0.2

/**
 * The delay after failure number `step`, counted from 1; null after the last attempt. `schedule_s`: the seconds before
 * each attempt. If the receiver sent `Retry-After`, its delay is used without jitter, but not less than the scheduled
 * delay and not more than twice the scheduled delay.
 */
export function retryDelayMs(
  schedule_s: number[],
  step: number,
  retry_after_ms: number | null,
): number | null {
  const delay_s = schedule_s[step]
  if (delay_s === undefined) return null
  const base_ms = delay_s * 1000
  if (retry_after_ms !== null) return Math.min(Math.max(retry_after_ms, base_ms), 2 * base_ms)
  return base_ms * (1 - JITTER + 2 * JITTER * Math.random())
}
