// Who is asking: API keys, looked up once a second at most, and how much they may ask.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { findCredentials, touchApiKey, type Credentials } from '#domain/api-keys.ts'

/** A revoked key must stop working within a second of it, so a look-up is believed a little less long. */
const CACHE_MS = 800
const TOUCH_MS = 60_000
const CACHE_SIZE = 10_000

/** Finds the credentials of a request by its `Authorization` header; throws `unauthorized`. */
export type Authenticate = (request: FastifyRequest) => Promise<Credentials>

export function createAuthenticate(sql: Sql, log: Log): Authenticate {
  const cache = new Map<string, { until: number; found: Promise<Credentials | undefined> }>()
  const touched = new Map<string, number>()

  async function lookUp(secret: string): Promise<Credentials | undefined> {
    const found = await findCredentials(sql, secret)
    if (found === undefined) cache.delete(secret)
    else if (found.expires_in_ms !== null) {
      const entry = cache.get(secret)
      if (entry) entry.until = Math.min(entry.until, performance.now() + found.expires_in_ms)
    }
    if (found !== undefined) touch(found)
    return found
  }

  function touch({ tenant_id, key_id }: Credentials): void {
    const now = performance.now()
    if (now - (touched.get(key_id) ?? -Infinity) < TOUCH_MS) return
    touched.set(key_id, now)
    touchApiKey(sql, tenant_id, key_id).catch((error: unknown) =>
      log.debug({ err: error }, 'last use was not noted'),
    )
  }

  return async (request) => {
    const header = request.headers.authorization
    const secret = header?.slice(0, 7).toLowerCase() === 'bearer ' ? header.slice(7).trim() : undefined
    if (secret === undefined) throw new AppError('unauthorized')
    const now = performance.now()
    let entry = cache.get(secret)
    if (entry === undefined || entry.until <= now) {
      if (cache.size >= CACHE_SIZE) cache.clear()
      // The time counts from before the look-up: what it reads may be that old.
      entry = { until: now + CACHE_MS, found: lookUp(secret) }
      cache.set(secret, entry)
      entry.found.catch(() => cache.delete(secret))
    }
    const found = await entry.found
    if (found === undefined) throw new AppError('unauthorized')
    return found
  }
}

/** Takes one request from what `id` may still ask; sets the headers; throws `rate_limited`. */
export type Limit = ((id: string, reply: FastifyReply) => void) & {
  /** Takes what a request turned out to cost beyond one: a debt that delays the next. */
  charge(id: string, requests: number): void
}

/**
 * A bucket for each key: `burst` requests at once, refilled with `rps` a second (GCRA). Own, because the kept plug-ins count
 * in fixed windows and cannot say "500 a second with bursts of 2,000". Per process.
 */
export function createLimit({ rps, burst }: { rps: number; burst: number }): Limit {
  const perRequest_ms = 1000 / rps
  const depth_ms = burst * perRequest_ms
  const policy = `"default";q=${burst};w=${Math.ceil(burst / rps)}`
  let full = new Map<string, number>()
  let swept_at = performance.now()

  // The time at which the bucket would be full again.
  const fullAt = (id: string, now: number, requests: number) =>
    Math.max(full.get(id) ?? now, now) + requests * perRequest_ms

  function take(id: string, reply: FastifyReply): void {
    const now = performance.now()
    if (now - swept_at > 60_000) {
      swept_at = now
      full = new Map(Array.from(full).filter(([, at]) => at > now))
    }
    const at = fullAt(id, now, 1)
    // What fits to the last request must not fail by a rounding of the clock's fractions.
    const left = Math.floor((depth_ms - (at - now)) / perRequest_ms + 1e-6)
    reply.header('ratelimit-policy', policy)
    if (left < 0) {
      const wait_s = Math.max(1, Math.ceil((at - now - depth_ms) / 1000))
      reply.header('ratelimit', `"default";r=0;t=${wait_s}`)
      throw new AppError('rate_limited', {
        retry_after_s: wait_s,
        message: `Too many requests: ${rps} a second, ${burst} at once; what is large counts as several.`,
      })
    }
    full.set(id, at)
    reply.header('ratelimit', `"default";r=${left};t=${Math.ceil((at - now) / 1000)}`)
  }

  return Object.assign(take, {
    charge: (id: string, requests: number) => void full.set(id, fullAt(id, performance.now(), requests)),
  })
}
