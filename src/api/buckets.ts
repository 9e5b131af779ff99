// Rate limits as buckets that refill at a steady rate (GCRA), and the headers that report them.
import type { FastifyReply } from 'fastify'

/** The level of a bucket. `left`: whole requests, negative when there are not enough. */
type Level = { left: number; enough_in_ms: number; full_in_ms: number }

export type Buckets = {
  /** The level that the bucket of `id` would have after this many more requests. */
  without: (id: string, requests: number) => Level
  /** Takes requests out of a bucket; never below empty. */
  take: (id: string, requests: number) => void
  /** Takes requests out even if there are not enough left: the debt must be refilled before the next request. */
  owe: (id: string, requests: number) => void
  /** What the headers `RateLimit-Policy` and `RateLimit` say of it: `left` requests now, more in `more_in_ms` milliseconds. */
  said: (left: number, more_in_ms: number) => SaidOfBucket
}

type SaidOfBucket = { policy: string; state: string }

/** Sets the headers `RateLimit-Policy` and `RateLimit`. */
export function tellOfBuckets(reply: FastifyReply, ...said: SaidOfBucket[]): void {
  reply.header('ratelimit-policy', said.map(({ policy }) => policy).join(', '))
  reply.header('ratelimit', said.map(({ state }) => state).join(', '))
}

/**
 * A bucket for each id: `burst` requests at once, refilled with `rps` a second, in this process. With more than
 * `most` buckets, the least recently used are forgotten. Written by ourselves because the maintained plug-ins count
 * in fixed windows and cannot express "500 a second with bursts of 2,000".
 */
export function createBuckets({
  rps,
  burst,
  most = Infinity,
  name = 'default',
}: {
  rps: number
  burst: number
  most?: number
  /** In the header `RateLimit-Policy`. */
  name?: string
}): Buckets {
  const each_ms = 1000 / rps
  const depth_ms = burst * each_ms
  const policy = `"${name}";q=${burst};w=${Math.ceil(burst / rps)}`
  /** When each bucket is full again, the least recently used first. */
  const full = new Map<string, number>()

  const fullIn = (id: string, now: number, requests: number) =>
    Math.max(0, (full.get(id) ?? now) - now) + requests * each_ms

  function set(id: string, now: number, full_in_ms: number): void {
    full.delete(id)
    full.set(id, now + full_in_ms)
    for (const [oldest, at] of full) {
      if (at > now && full.size <= most) break
      full.delete(oldest)
    }
  }

  return {
    without(id, requests) {
      const full_in_ms = fullIn(id, performance.now(), requests)
      // The last request that fits must not fail because of rounding.
      const left = Math.floor((depth_ms - full_in_ms) / each_ms + 1e-6)
      return { left, enough_in_ms: full_in_ms - depth_ms, full_in_ms }
    },
    take(id, requests) {
      const now = performance.now()
      set(id, now, Math.min(fullIn(id, now, requests), Math.max(depth_ms, fullIn(id, now, 0))))
    },
    owe(id, requests) {
      const now = performance.now()
      set(id, now, fullIn(id, now, requests))
    },
    said: (left, more_in_ms) => ({
      policy,
      state: `"${name}";r=${left};t=${Math.ceil(more_in_ms / 1000)}`,
    }),
  }
}
