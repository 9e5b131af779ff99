// The delays between attempts at a job, in milliseconds, by the retry schedule of its definition.
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { RetrySchedule } from '#jobs/job.ts'

/**
 * Exponential backoff with jitter: between 10 % and 100 % of the delay, and at least `after_ms`, the delay that the
 * provider demands.
 */
export function retryDelay(
  { failures }: Pick<ClaimedJob, 'failures'>,
  { base_ms, cap_ms }: RetrySchedule,
  after_ms: number,
): number {
  const ceiling_ms = Math.min(cap_ms, base_ms * 2 ** failures)
  return Math.max(after_ms, ceiling_ms * (0.1 + 0.9 * Math.random()))
}

/**
 * The delay before a call under a new key. It grows with the number of keys, also if lookups come between the calls: a
 * provider that stores an error for each new key is called less and less often.
 */
export function rotationDelay(job: ClaimedJob, retry: RetrySchedule): number {
  const failures = Math.max(job.failures, (job.call?.generation ?? 1) - 1)
  return retryDelay({ failures }, retry, 0)
}

/** The delay before the next lookup of a call whose effect is unknown. */
export function lookupDelay({ unknown_ms }: ClaimedJob, { lookup_delays_ms }: RetrySchedule): number {
  return lookup_delays_ms.find((delay_ms) => delay_ms > (unknown_ms ?? 0)) ?? lookup_delays_ms.at(-1)!
}
