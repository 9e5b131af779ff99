// Limits how many invalid keys, or sessions that have ended, may come from one address.
import type { FastifyReply } from 'fastify'
import { AppError } from '#core/errors.ts'
import { networkOf } from '#core/network.ts'
import { createBuckets, tellOfBuckets } from './buckets.ts'

/** The budget of invalid keys of each address. */
const BAD_KEYS = { rps: 5, burst: 20, most: 20_000 }

export type Failures = {
  /** The error for an address that has used up its budget, else undefined. */
  refusal(ip: string): AppError | undefined
  count(ip: string): void
  /** Sets the rate limit headers of a refusal by the budget of the address. */
  tell(ip: string, reply: FastifyReply): void
}

/** `of`: what was not valid, in the words of the refusal. */
export function createFailures(of = 'keys that are not valid'): Failures {
  const buckets = createBuckets(BAD_KEYS)
  return {
    refusal(ip) {
      const { left, enough_in_ms } = buckets.without(networkOf(ip), 1)
      if (left >= 0) return undefined
      return new AppError('rate_limited', {
        message: `Too many ${of} came from this address.`,
        retry_after_s: Math.ceil(enough_in_ms / 1000),
      })
    },
    count: (ip) => buckets.take(networkOf(ip), 1),
    tell(ip, reply) {
      const { left, full_in_ms } = buckets.without(networkOf(ip), 0)
      tellOfBuckets(reply, buckets.said(left, full_in_ms))
    },
  }
}
