// Rate limits: for any id, such as an address, and for callers: for their key and for their tenant.
import type { FastifyReply } from 'fastify'
import { TENANT_LIMIT_FACTOR } from '#core/config/limits.ts'
import type { Config } from '#core/config.ts'
import { AppError } from '#core/errors.ts'
import type { Credentials } from '#domain/api-keys.ts'
import { createBuckets, writeRateLimitHeaders, type Buckets } from './buckets.ts'

/** Counts `requests` (default: 1) of `id`, and sets the rate limit headers of `reply`. Throws `rate_limited`. */
export type Limit<Id = string> = ((id: Id, reply?: FastifyReply, requests?: number) => void) & {
  /** Counts the additional cost of a request, even above the limit. The next requests then have to wait. */
  charge(id: Id, requests: number): void
}

type Caller = Pick<Credentials, 'key_id' | 'tenant_id'>
export type CallerLimit = Limit<Caller>

type Budget = { rps: number; burst: number; max_buckets?: number }
/** `of`: the scope of the limit, for the error message. `name`: its name in the metrics. */
type Bucket = { buckets: Buckets; id: string; budget: Budget; of: string; name: 'key' | 'tenant' | 'address' }

/** Limits each id to `burst` requests at once and `rps` a second. Tracks at most `max_buckets` ids. */
export function createLimit(budget: Budget): Limit {
  const buckets = createBuckets(budget)
  return Object.assign(
    (id: string, reply?: FastifyReply, requests = 1) =>
      consumeFromAll([{ buckets, id, budget, of: '', name: 'address' }], reply, requests),
    { charge: buckets.consumeOnCredit },
  )
}

/**
 * Limits each key (or dashboard user) and each tenant with a bucket. A request is admitted only if both buckets have
 * room.
 */
export function createCallerLimit({
  RATE_LIMIT_RPS: rps,
  RATE_LIMIT_BURST: burst,
  RATE_LIMIT_TENANT_RPS,
  RATE_LIMIT_TENANT_BURST,
}: Config): CallerLimit {
  const key_budget = { rps, burst }
  const tenant_budget = {
    rps: RATE_LIMIT_TENANT_RPS ?? TENANT_LIMIT_FACTOR * rps,
    burst: RATE_LIMIT_TENANT_BURST ?? TENANT_LIMIT_FACTOR * burst,
  }
  const keys = createBuckets(key_budget)
  const tenants = createBuckets({ ...tenant_budget, name: 'tenant', repaid_rps: rps })
  return Object.assign(
    ({ key_id, tenant_id }: Caller, reply?: FastifyReply, requests = 1) =>
      consumeFromAll(
        [
          { buckets: keys, id: key_id, budget: key_budget, of: '', name: 'key' },
          {
            buckets: tenants,
            id: tenant_id,
            budget: tenant_budget,
            of: ' of all keys of the tenant',
            name: 'tenant',
          },
        ],
        reply,
        requests,
      ),
    {
      charge({ key_id, tenant_id }: Caller, requests: number) {
        const debt_ms = () => Math.max(0, keys.levelAfter(key_id, 0).enough_in_ms)
        const before_ms = debt_ms()
        keys.consumeOnCredit(key_id, requests)
        const after_ms = debt_ms()
        // The debt of a key is the cost that its bucket could not cover. The other keys of the tenant must not wait for
        // this debt. So the bucket of the tenant is charged for it gradually, at the rate at which the key's bucket
        // refills.
        tenants.consumeOnCredit(tenant_id, requests - ((after_ms - before_ms) * rps) / 1000)
        if (after_ms > 0) tenants.repay(tenant_id, key_id, after_ms)
      },
    },
  )
}

/** Takes requests out of all these buckets, or out of none. Throws `rate_limited` with the longest wait. */
function consumeFromAll(
  buckets_of_request: Bucket[],
  reply: FastifyReply | undefined,
  requests: number,
): void {
  const levels = buckets_of_request.map((bucket) => ({
    ...bucket,
    ...bucket.buckets.levelAfter(bucket.id, requests),
  }))
  const slowest = levels
    .filter(({ remaining }) => remaining < 0)
    .toSorted((a, b) => b.enough_in_ms - a.enough_in_ms)[0]
  if (slowest === undefined) for (const { buckets, id } of buckets_of_request) buckets.consume(id, requests)
  if (reply !== undefined)
    writeRateLimitHeaders(
      reply,
      ...levels.map(({ buckets, remaining, enough_in_ms, full_in_ms }) =>
        remaining < 0 ? buckets.headersFor(0, enough_in_ms) : buckets.headersFor(remaining, full_in_ms),
      ),
    )
  if (slowest === undefined) return
  const { buckets, id, enough_in_ms, budget, of, name } = slowest
  const has_debt = buckets.levelAfter(id, 0).remaining < 0
  throw new AppError('rate_limited', {
    limited_by: has_debt ? 'debt' : name,
    retry_after_s: Math.ceil(enough_in_ms / 1000),
    message: `Too many requests${of}: at most ${budget.rps} a second and ${budget.burst} at once are allowed. Large requests and answers count as several.`,
  })
}
