// Authenticates requests by their API key. A key is looked up at most about once a second.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import type { Sql } from '#core/db.ts'
import { createGate } from '#core/gate.ts'
import type { Log } from '#core/log.ts'
import {
  findCredentials,
  findEachCredentials,
  isKeyShaped,
  touchApiKey,
  type Credentials,
} from '#domain/api-keys.ts'
import { createFailures, networkOf } from './failures.ts'
import { createSlowLane } from './slow-lane.ts'

/** A revoked key must stop working within a second, so the result of a look-up is cached a little shorter. */
const CACHE_MS = 800
const TOUCH_MS = 60_000
const CACHE_SIZE = 10_000
/** Limits the look-ups of keys that this process has not seen as valid. */
const UNKNOWN_KEYS = {
  running: 16,
  queue: {
    waiting: 256,
    wait_ms: 1_000,
    refuse: () => new AppError('overloaded', { message: 'Too many keys wait to be looked up.' }),
  },
}

/**
 * Finds the credentials of a request by its `Authorization` header. Throws `unauthorized`, or `rate_limited` when too
 * many invalid keys came from the same address, or `overloaded`. A valid key is accepted whatever else its address
 * has sent: if it is not cached, it is then looked up in a slow lane.
 */
export type Authenticate = (request: FastifyRequest, reply: FastifyReply) => Promise<Credentials>

export function createAuthenticate(sql: Sql, log: Log): Authenticate {
  /**
   * Keys that were valid when last looked up. Guesses cannot displace them, and their next look-up does not pass the
   * gate.
   */
  const known = new Map<string, { until: number; credentials: Credentials }>()
  const refused = new Map<string, number>()
  const asking = new Map<string, { until: number; found: Promise<Credentials | undefined> }>()
  const touched = new Map<string, number>()
  const failures = createFailures()
  const unknownKeyGate = createGate(UNKNOWN_KEYS)
  const slowly = createSlowLane(
    (secrets) => findEachCredentials(sql, secrets),
    () => new AppError('rate_limited', { retry_after_s: 1 }),
  )

  async function lookUpUnknown(secret: string, ip: string): ReturnType<typeof findCredentials> {
    if (failures.refusal(ip) === undefined) {
      // Other requests may have used up the budget while this one waited.
      const found = await unknownKeyGate(async () =>
        failures.refusal(ip) === undefined ? { row: await findCredentials(sql, secret) } : undefined,
      )
      if (found !== undefined) return found.row
    }
    return await slowly(networkOf(ip), secret)
  }

  function lookUp(secret: string, ip: string): Promise<Credentials | undefined> {
    // The cache time counts from before the look-up, because the result may be that old.
    const until = performance.now() + CACHE_MS
    const under_way = asking.get(secret)
    if (under_way !== undefined && under_way.until > until - CACHE_MS) return under_way.found
    const found = (known.has(secret) ? findCredentials(sql, secret) : lookUpUnknown(secret, ip))
      .then((row) => {
        known.delete(secret)
        if (row === undefined) {
          keep(refused, secret, until)
          return undefined
        }
        const { expires_in_ms, ...credentials } = row
        const expires = expires_in_ms === null ? Infinity : performance.now() + expires_in_ms
        keep(known, secret, { until: Math.min(until, expires), credentials })
        touch(credentials)
        return credentials
      })
      .finally(() => {
        if (asking.get(secret) === entry) asking.delete(secret)
      })
    const entry = { until, found }
    asking.set(secret, entry)
    return found
  }

  function touch({ tenant_id, key_id }: Credentials): void {
    const now = performance.now()
    if (now - (touched.get(key_id) ?? -Infinity) < TOUCH_MS) return
    touched.set(key_id, now)
    touchApiKey(sql, tenant_id, key_id).catch((error: unknown) =>
      log.debug({ err: error }, 'the last use of a key was not recorded'),
    )
  }

  async function find(secret: string, ip: string): Promise<Credentials | undefined> {
    const now = performance.now()
    const entry = known.get(secret)
    if (entry !== undefined && entry.until > now) return entry.credentials
    const may_be = isKeyShaped(secret) && (refused.get(secret) ?? 0) <= now
    const found = may_be ? await lookUp(secret, ip) : undefined
    const refusal = found === undefined && entry === undefined ? failures.refusal(ip) : undefined
    if (refusal !== undefined) throw refusal
    return found
  }

  return async (request, reply) => {
    const { ip } = request
    const header = request.headers.authorization
    const secret = header?.slice(0, 7).toLowerCase() === 'bearer ' ? header.slice(7).trim() : undefined
    try {
      const found = secret && (await find(secret, ip))
      if (found) return found
      if (secret) failures.count(ip)
      throw new AppError('unauthorized')
    } catch (error) {
      failures.tell(ip, reply)
      throw error
    }
  }
}

/** Stores a value; a full cache drops its oldest entry. */
function keep<Value>(cache: Map<string, Value>, secret: string, value: Value): void {
  cache.delete(secret)
  cache.set(secret, value)
  const [oldest] = cache.keys()
  if (cache.size > CACHE_SIZE) cache.delete(oldest!)
}
