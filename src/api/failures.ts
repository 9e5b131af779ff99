// Limits the invalid keys, or ended sessions, that one address may send.
import type { FastifyReply } from 'fastify'
import { AppError } from '#core/errors.ts'
import { networkOf } from '#core/network.ts'
import { createBuckets, writeRateLimitHeaders } from './buckets.ts'

/** The budget of invalid keys of each address. */
const INVALID_KEY_BUDGET = { rps: 5, burst: 20, max_buckets: 20_000 }

export type FailureLimit = {
  /** The error for an address that has exhausted its budget, else undefined. */
  refusal(ip: string): AppError | undefined
  count(ip: string): void
  /** Sets the rate limit headers of a refusal from the budget of the address. */
  setHeaders(ip: string, reply: FastifyReply): void
}

/** `failures_text`: the counted failures, for the error message. */
export function createFailureLimit(failures_text = 'keys that are not valid'): FailureLimit {
  const buckets = createBuckets(INVALID_KEY_BUDGET)
  return {
    refusal(ip) {
      const { remaining, enough_in_ms } = buckets.levelAfter(networkOf(ip), 1)
      if (remaining >= 0) return undefined
      return new AppError('rate_limited', {
        limited_by: 'invalid_keys',
        message: `Too many ${failures_text} came from this address: retry later.`,
        retry_after_s: Math.ceil(enough_in_ms / 1000),
      })
    },
    count: (ip) => buckets.consume(networkOf(ip), 1),
    setHeaders(ip, reply) {
      const { remaining, full_in_ms } = buckets.levelAfter(networkOf(ip), 0)
      writeRateLimitHeaders(reply, buckets.headersFor(remaining, full_in_ms))
    },
  }
}
