// Rate limits as buckets that refill at a steady rate (GCRA), and the headers that report them.
import type { FastifyReply } from 'fastify'

/** The level of a bucket. `left`: whole requests, negative when there are not enough. */
type Level = { remaining: number; enough_in_ms: number; full_in_ms: number }

export type Buckets = {
  /** The level that the bucket of `id` would have after this many more requests. */
  levelAfter: (id: string, requests: number) => Level
  /** Takes requests out of a bucket; never below empty. */
  consume: (id: string, requests: number) => void
  /** Takes requests out even if there are not enough left: the debt must be refilled before the next request. */
  consumeOnCredit: (id: string, requests: number) => void
  /** For the next milliseconds, this payer takes `repaid_rps` requests a second out of the bucket. */
  repay: (id: string, payer: string, for_ms: number) => void
  /**
   * What the headers `RateLimit-Policy` and `RateLimit` say of it: `left` requests now, more in `more_in_ms`
   * milliseconds.
   */
  headersFor: (remaining: number, more_in_ms: number) => RateLimitHeaders
}

type RateLimitHeaders = { policy: string; state: string }

/** Sets the headers `RateLimit-Policy` and `RateLimit`. */
export function writeRateLimitHeaders(reply: FastifyReply, ...headersFor: RateLimitHeaders[]): void {
  reply.header('ratelimit-policy', headersFor.map(({ policy }) => policy).join(', '))
  reply.header('ratelimit', headersFor.map(({ state }) => state).join(', '))
}

/**
 * A bucket for each id: `burst` requests at once, refilled with `rps` a second, in this process. With more than
 * `most` buckets, the least recently used are forgotten. Written by ourselves because the maintained plug-ins count
 * in fixed windows and cannot express "500 a second with bursts of 2,000".
 */
export function createBuckets({
  rps,
  burst,
  max_buckets = Infinity,
  name = 'default',
  repaid_rps = 0,
}: {
  rps: number
  burst: number
  max_buckets?: number
  /** In the header `RateLimit-Policy`. */
  name?: string
  /** How fast each payer pays. */
  repaid_rps?: number
}): Buckets {
  const ms_per_request = 1000 / rps
  const capacity_ms = burst * ms_per_request
  const policy = `"${name}";q=${burst};w=${Math.ceil(burst / rps)}`
  /** How much longer a bucket needs to refill for each millisecond that one payer pays. */
  const share = repaid_rps / rps
  const { catchUp, refilledIn, fullIn, set, addPayer } = createLevels({ ms_per_request, share, max_buckets })

  return {
    levelAfter(id, requests) {
      const now = performance.now()
      catchUp(id, now)
      const full_in_ms = fullIn(id, now, requests)
      // The last request that fits must not fail because of rounding.
      const remaining = Math.floor((capacity_ms - full_in_ms) / ms_per_request + 1e-6)
      return {
        remaining,
        enough_in_ms: refilledIn(id, now, full_in_ms, capacity_ms),
        full_in_ms: refilledIn(id, now, full_in_ms, 0),
      }
    },
    consume(id, requests) {
      const now = performance.now()
      catchUp(id, now)
      set(id, now, Math.min(fullIn(id, now, requests), Math.max(capacity_ms, fullIn(id, now, 0))))
    },
    consumeOnCredit(id, requests) {
      const now = performance.now()
      catchUp(id, now)
      set(id, now, fullIn(id, now, requests))
    },
    repay(id, payer, for_ms) {
      const now = performance.now()
      catchUp(id, now)
      addPayer(id, payer, now, for_ms)
    },
    headersFor: (remaining, more_in_ms) => ({
      policy,
      state: `"${name}";r=${remaining};t=${Math.ceil(more_in_ms / 1000)}`,
    }),
  }
}

/** The time at which each bucket is full again, and the payers of each bucket. `now`: the current time. */
function createLevels({
  ms_per_request,
  share,
  max_buckets,
}: {
  ms_per_request: number
  share: number
  max_buckets: number
}) {
  /** When each bucket is full again, the least recently used first. */
  const full = new Map<string, number>()
  /** Until when each payer of a bucket pays, the first to end first. Counted up to `at`. */
  const payers = new Map<string, { at: number; ends: Map<string, number> }>()

  /** Counts what was paid out of a bucket until now. */
  function catchUp(id: string, now: number): void {
    const paid = payers.get(id)
    if (paid === undefined) return
    for (const [payer, end] of paid.ends) {
      const until = Math.min(end, now)
      const full_at = Math.max(full.get(id) ?? 0, paid.at) + paid.ends.size * share * (until - paid.at)
      full.set(id, Math.max(full_at, until))
      paid.at = until
      if (end > now) return
      paid.ends.delete(payer)
    }
    payers.delete(id)
  }

  /** When a bucket that needs `full_in_ms` to refill will need only `least_ms`, while its payers pay. */
  function refilledIn(id: string, now: number, full_in_ms: number, target_ms: number): number {
    let [rest_ms, at, paying] = [full_in_ms - target_ms, now, payers.get(id)?.ends.size ?? 0]
    if (rest_ms <= 0) return rest_ms
    for (const end of payers.get(id)?.ends.values() ?? []) {
      const speed = 1 - paying-- * share
      if (rest_ms <= (end - at) * speed) return at - now + rest_ms / speed
      rest_ms -= (end - at) * speed
      at = end
    }
    return at - now + rest_ms
  }

  const fullIn = (id: string, now: number, requests: number) =>
    Math.max(0, (full.get(id) ?? now) - now) + requests * ms_per_request

  function set(id: string, now: number, full_in_ms: number): void {
    full.delete(id)
    full.set(id, now + full_in_ms)
    for (const [oldest, at] of full) {
      if ((at > now || payers.has(oldest)) && full.size <= max_buckets) break
      full.delete(oldest)
    }
  }

  /** Adds a payer for the next `for_ms`. Call `catchUp` first. */
  function addPayer(id: string, payer: string, now: number, for_ms: number): void {
    const ends = new Map(payers.get(id)?.ends).set(payer, now + for_ms)
    payers.set(id, { at: now, ends: new Map([...ends].toSorted(([, a], [, b]) => a - b)) })
  }

  return { catchUp, refilledIn, fullIn, set, addPayer }
}
