// The rate limits: of what has one id, and of callers, who have that of their key and that of their tenant.
import type { FastifyReply } from 'fastify'
import { TENANT_LIMIT_FACTOR } from '#core/config/limits.ts'
import type { Config } from '#core/config.ts'
import { AppError } from '#core/errors.ts'
import type { Credentials } from '#domain/api-keys.ts'
import { createBuckets, writeRateLimitHeaders, type Buckets } from './buckets.ts'

/** Counts `requests` (1 by default) of `id` and sets the rate limit headers of `reply`, if given. Throws `rate_limited`. */
export type Limit<Id = string> = ((id: Id, reply?: FastifyReply, requests?: number) => void) & {
  /** Counts what a request turned out to cost beyond one, even below zero: the next requests have to wait. */
  charge(id: Id, requests: number): void
}

type Caller = Pick<Credentials, 'key_id' | 'tenant_id'>
export type CallerLimit = Limit<Caller>

type Budget = { rps: number; burst: number; max_buckets?: number }
/** `of`: whose requests are too many, in the words of the refusal. */
type Bucket = { buckets: Buckets; id: string; budget: Budget; of: string }

/** `burst` requests of each id at once, and `rps` a second; at most `most` ids are remembered. */
export function createLimit(budget: Budget): Limit {
  const buckets = createBuckets(budget)
  return Object.assign(
    (id: string, reply?: FastifyReply, requests = 1) =>
      consumeAll([{ buckets, id, budget, of: '' }], reply, requests),
    { charge: buckets.consumeOnCredit },
  )
}

/** A bucket for each key, or user of the dashboard, and one for each tenant: a request needs room in both. */
export function createCallerLimit({
  RATE_LIMIT_RPS: rps,
  RATE_LIMIT_BURST: burst,
  RATE_LIMIT_TENANT_RPS,
  RATE_LIMIT_TENANT_BURST,
}: Config): CallerLimit {
  const of_key = { rps, burst }
  const of_tenant = {
    rps: RATE_LIMIT_TENANT_RPS ?? TENANT_LIMIT_FACTOR * rps,
    burst: RATE_LIMIT_TENANT_BURST ?? TENANT_LIMIT_FACTOR * burst,
  }
  const keys = createBuckets(of_key)
  const tenants = createBuckets({ ...of_tenant, name: 'tenant', repaid_rps: rps })
  return Object.assign(
    ({ key_id, tenant_id }: Caller, reply?: FastifyReply, requests = 1) =>
      consumeAll(
        [
          { buckets: keys, id: key_id, budget: of_key, of: '' },
          { buckets: tenants, id: tenant_id, budget: of_tenant, of: ' of all keys of the tenant' },
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
        // In debt at once, the tenant would wait for one key: it pays the debt of the key as the key does.
        tenants.consumeOnCredit(tenant_id, requests - ((after_ms - before_ms) * rps) / 1000)
        if (after_ms > 0) tenants.repay(tenant_id, key_id, after_ms)
      },
    },
  )
}

/** Takes requests out of all of these buckets, or none. Throws `rate_limited`, by the one that is full again last. */
function consumeAll(all: Bucket[], reply: FastifyReply | undefined, requests: number): void {
  const levels = all.map((one) => ({ ...one, ...one.buckets.levelAfter(one.id, requests) }))
  const slowest = levels
    .filter(({ remaining }) => remaining < 0)
    .toSorted((a, b) => b.enough_in_ms - a.enough_in_ms)[0]
  if (slowest === undefined) for (const { buckets, id } of all) buckets.consume(id, requests)
  if (reply !== undefined)
    writeRateLimitHeaders(
      reply,
      ...levels.map(({ buckets, remaining, enough_in_ms, full_in_ms }) =>
        remaining < 0 ? buckets.headersFor(0, enough_in_ms) : buckets.headersFor(remaining, full_in_ms),
      ),
    )
  if (slowest === undefined) return
  const { enough_in_ms, budget, of } = slowest
  throw new AppError('rate_limited', {
    retry_after_s: Math.ceil(enough_in_ms / 1000),
    message: `Too many requests${of}: ${budget.rps} a second, ${budget.burst} at once; what is large counts as several.`,
  })
}
