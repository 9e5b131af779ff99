// How much a key may ask.
import type { FastifyReply } from 'fastify'
import { AppError } from '#core/errors.ts'
import { createBuckets } from './buckets.ts'

/** Takes `requests` (1) from what `id` may still ask; sets the headers; throws `rate_limited`. */
export type Limit = ((id: string, reply: FastifyReply, requests?: number) => void) & {
  /** Takes what a request turned out to cost beyond one: a debt that delays the next. */
  charge(id: string, requests: number): void
}

/** `burst` requests of each id at once, and `rps` a second. */
export function createLimit({ rps, burst }: { rps: number; burst: number }): Limit {
  const buckets = createBuckets({ rps, burst })

  function take(id: string, reply: FastifyReply, requests = 1): void {
    const { left, enough_in_ms, full_in_ms } = buckets.without(id, requests)
    if (left < 0) {
      buckets.tell(reply, 0, enough_in_ms)
      throw new AppError('rate_limited', {
        retry_after_s: Math.ceil(enough_in_ms / 1000),
        message: `Too many requests: ${rps} a second, ${burst} at once; what is large counts as several.`,
      })
    }
    buckets.take(id, requests)
    buckets.tell(reply, left, full_in_ms)
  }

  return Object.assign(take, { charge: buckets.owe })
}
