// The rate limit of API keys.
import type { FastifyReply } from 'fastify'
import { AppError } from '#core/errors.ts'
import { createBuckets } from './buckets.ts'

/** Counts `requests` (1 by default) of `id` and sets the rate limit headers of `reply`, if given. Throws `rate_limited`. */
export type Limit = ((id: string, reply?: FastifyReply, requests?: number) => void) & {
  /** Counts what a request turned out to cost beyond one, even below zero: the next requests have to wait. */
  charge(id: string, requests: number): void
}

/** `burst` requests of each id at once, and `rps` a second; at most `most` ids are remembered. */
export function createLimit(budget: { rps: number; burst: number; most?: number }): Limit {
  const { rps, burst } = budget
  const buckets = createBuckets(budget)

  function take(id: string, reply?: FastifyReply, requests = 1): void {
    const { left, enough_in_ms, full_in_ms } = buckets.without(id, requests)
    if (left < 0) {
      if (reply !== undefined) buckets.tell(reply, 0, enough_in_ms)
      throw new AppError('rate_limited', {
        retry_after_s: Math.ceil(enough_in_ms / 1000),
        message: `Too many requests: ${rps} a second, ${burst} at once; what is large counts as several.`,
      })
    }
    buckets.take(id, requests)
    if (reply !== undefined) buckets.tell(reply, left, full_in_ms)
  }

  return Object.assign(take, { charge: buckets.owe })
}
