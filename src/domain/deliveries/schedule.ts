// When a delivery is tried again after a failure.

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** The delay before each attempt: 75.6 hours in all. */
export const SCHEDULE_MS = [
  0,
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
]
/** Up to this part of a delay is added to it or taken from it. */
const JITTER = 0.2

/**
 * How long after its `step`th failure (from 1) a delivery is tried again; null when its schedule is used up. What the
 * receiver asks for with `Retry-After` holds as it is, from the delay of the schedule up to twice that.
 */
export function retryDelayMs(step: number, retry_after_ms: number | null): number | null {
  const base_ms = SCHEDULE_MS[step]
  if (base_ms === undefined) return null
  if (retry_after_ms !== null) return Math.min(Math.max(retry_after_ms, base_ms), 2 * base_ms)
  return base_ms * (1 - JITTER + 2 * JITTER * Math.random())
}
