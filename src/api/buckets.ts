// Rate limits as buckets that refill at a steady rate (GCRA), and the headers that report them.
import type { FastifyReply } from 'fastify'

/** The level of a bucket. `remaining`: whole requests; negative if there are not enough. */
type Level = { remaining: number; enough_in_ms: number; full_in_ms: number }

export type Buckets = {
  /** The level of the bucket of `id` after `requests` more requests. */
  levelAfter: (id: string, requests: number) => Level
  /** Removes requests from a bucket, at most until it is empty. */
  consume: (id: string, requests: number) => void
  /**
   * Removes requests from a bucket even if it does not contain as many. The missing requests are its debt: the next
   * request must wait until they are refilled.
   */
  consumeOnCredit: (id: string, requests: number) => void
  /**
   * Charges a debt of another bucket gradually: for the next `for_ms`, the bucket of `id` refills more slowly, by
   * `repaid_rps` requests a second. `payer`: the id of the bucket that has the debt.
   */
  repay: (id: string, payer: string, for_ms: number) => void
  /**
   * The values of the headers `RateLimit-Policy` and `RateLimit`: `remaining` requests now, more in `more_in_ms`
   * milliseconds.
   */
  headersFor: (remaining: number, more_in_ms: number) => RateLimitHeaders
}

type RateLimitHeaders = { policy: string; state: string }

/** Sets the headers `RateLimit-Policy` and `RateLimit`. */
export function writeRateLimitHeaders(reply: FastifyReply, ...limits: RateLimitHeaders[]): void {
  reply.header('ratelimit-policy', limits.map(({ policy }) => policy).join(', '))
  reply.header('ratelimit', limits.map(({ state }) => state).join(', '))
}

/**
 * A bucket for each id, in this process: `burst` requests at once, refilled at `rps` a second. Beyond `max_buckets`,
 * the least recently used buckets are evicted. The maintained plug-ins of Fastify count in fixed windows and cannot
 * express "500 a second with bursts of 2,000".
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
  /** The name of the limit in the header `RateLimit-Policy`. */
  name?: string
  /** By how many requests a second a bucket refills more slowly for each payer (see `repay`). */
  repaid_rps?: number
}): Buckets {
  const ms_per_request = 1000 / rps
  const capacity_ms = burst * ms_per_request
  const policy = `"${name}";q=${burst};w=${Math.ceil(burst / rps)}`
  /** The part of a bucket's refill rate that is lost for each payer. */
  const share = repaid_rps / rps
  const { catchUp, refilledIn, fullIn, set, addPayer } = createLevels({ ms_per_request, share, max_buckets })

  return {
    levelAfter(id, requests) {
      const now = performance.now()
      catchUp(id, now)
      const full_in_ms = fullIn(id, now, requests)
      // Without the addition, rounding could refuse the last request that fits.
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

/** Tracks when each bucket is full again, and the payers whose repayments slow its refill. `now`: the current time. */
function createLevels({
  ms_per_request,
  share,
  max_buckets,
}: {
  ms_per_request: number
  share: number
  max_buckets: number
}) {
  /** When each bucket is full again; the least recently used bucket is first. */
  const full = new Map<string, number>()
  /**
   * When the repayment of each payer ends, the earliest first. Repayments before `at` are already included in `full`.
   */
  const payers = new Map<string, { at: number; ends: Map<string, number> }>()

  /** Adds the repayments since the last call to the time at which a bucket is full again. */
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

  /**
   * The time in milliseconds in which a bucket refills while its payers repay: from the level that would be full in
   * `full_in_ms` to the level that would be full in `target_ms`, both without repayments.
   */
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

  /** Adds a repayment of `payer` for the next `for_ms`. Call `catchUp` first. */
  function addPayer(id: string, payer: string, now: number, for_ms: number): void {
    const ends = new Map(payers.get(id)?.ends).set(payer, now + for_ms)
    payers.set(id, { at: now, ends: new Map([...ends].toSorted(([, a], [, b]) => a - b)) })
  }

  return { catchUp, refilledIn, fullIn, set, addPayer }
}
