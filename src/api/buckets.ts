// Buckets that fill again at a steady rate (GCRA): how much each caller may still ask for, and the headers that say so.
import type { FastifyReply } from 'fastify'

/** How a bucket stands. `left`: whole requests, negative when there are not enough. */
type Level = { left: number; enough_in_ms: number; full_in_ms: number }

export type Buckets = {
  /** How the bucket of `id` would stand without so many more requests. */
  without: (id: string, requests: number) => Level
  /** Takes requests out; of an empty bucket nothing. */
  take: (id: string, requests: number) => void
  /** Takes requests out of a bucket that may not have them: a debt, which has to be filled up first. */
  owe: (id: string, requests: number) => void
  /** Sets `RateLimit-Policy` and `RateLimit`: so many are left, and more in so many milliseconds. */
  tell: (reply: FastifyReply, left: number, more_in_ms: number) => void
}

/**
 * A bucket for each id: `burst` requests at once, refilled with `rps` a second. When there are more than `most`, those that were
 * taken from least lately are forgotten. Own, because the kept plug-ins count in fixed windows and cannot say "500 a second with
 * bursts of 2,000". Per process.
 */
export function createBuckets({
  rps,
  burst,
  most = Infinity,
}: {
  rps: number
  burst: number
  most?: number
}): Buckets {
  const each_ms = 1000 / rps
  const depth_ms = burst * each_ms
  const policy = `"default";q=${burst};w=${Math.ceil(burst / rps)}`
  /** When each is full again; the one that was taken from last is the last. */
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
      // What fits to the last request must not fail by a rounding of the clock's fractions.
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
    tell(reply, left, more_in_ms) {
      reply.header('ratelimit-policy', policy)
      reply.header('ratelimit', `"default";r=${left};t=${Math.ceil(more_in_ms / 1000)}`)
    },
  }
}
