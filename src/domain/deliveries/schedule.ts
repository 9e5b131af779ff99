// When a delivery is tried again after a failure.

/** Up to this part of a delay is added to it or taken from it. */
const JITTER = 0.2

/**
 * How long after its `step`th failure (from 1) a delivery is tried again; null when its schedule, the seconds before each
 * attempt, is used up. What the receiver asks for with `Retry-After` holds as it is, from the delay of the schedule up to
 * twice that.
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
