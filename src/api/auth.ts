// Authenticates requests by their API key. Each key is looked up at most about once a second.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import type { Sql } from '#core/db.ts'
import { createGate } from '#core/gate.ts'
import type { Log } from '#core/log.ts'
import { networkOf } from '#core/network.ts'
import {
  findCredentials,
  findManyCredentials,
  hasKeyFormat,
  KEY_PREFIXES,
  recordKeyUse,
  type Credentials,
} from '#domain/api-keys.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'
import { createFailureLimit, type FailureLimit } from './failures.ts'
import { createSlowLane } from './slow-lane.ts'

/** A revoked key must stop working within a second: results are cached for less. */
const CACHE_TTL_MS = 800
const LAST_USE_INTERVAL_MS = 60_000
const MAX_CACHED_KEYS = 10_000
/** Limits the lookups of keys that are not cached as valid. */
const UNKNOWN_KEY_LIMITS = {
  running: 16,
  queue: {
    waiting: 256,
    wait_ms: 1_000,
    refuse: () =>
      new AppError('overloaded', {
        limited_by: 'key_lookups',
        message: 'Too many keys wait to be looked up: retry later.',
      }),
  },
}

/** What authentication uses of the context of an API. */
type AuthContext = { sql: Sql; log: Log; database: Pick<DatabaseWatch, 'whileCurrent'> }

/**
 * Finds the credentials of a request by its `Authorization` header. Throws `unauthorized`, `overloaded`, or
 * `rate_limited` if too many invalid keys came from the same address. A valid key from such an address is still
 * accepted: if it is not cached, it is looked up in the slow lane (`slow-lane.ts`).
 */
export type Authenticate = (request: FastifyRequest, reply: FastifyReply) => Promise<Credentials>

export function createAuthenticate(context: AuthContext): Authenticate {
  const { sql } = context
  /**
   * Keys that were valid at their last lookup. Guessed keys cannot evict them, and their next lookup does not wait for
   * the lookups of unknown keys.
   */
  const valid = new Map<string, { until: number; credentials: Credentials }>()
  const rejected = new Map<string, number>()
  const pending = new Map<string, { until: number; found: Promise<Credentials | undefined> }>()
  const failures = createFailureLimit()
  const lookUpUnknown = createUnknownLookup(sql, failures)
  const recordLastUse = createLastUseRecorder(context)

  function lookUp(secret: string, ip: string): Promise<Credentials | undefined> {
    // The cache time begins before the lookup, because the result may be as old as the beginning of the lookup.
    const until = performance.now() + CACHE_TTL_MS
    const in_progress = pending.get(secret)
    if (in_progress !== undefined && in_progress.until > until - CACHE_TTL_MS) return in_progress.found
    const found = (valid.has(secret) ? findCredentials(sql, secret) : lookUpUnknown(secret, ip))
      .then((row) => {
        valid.delete(secret)
        if (row === undefined) {
          store(rejected, secret, until)
          return undefined
        }
        const { expires_in_ms, ...credentials } = row
        const expires_at = expires_in_ms === null ? Infinity : performance.now() + expires_in_ms
        store(valid, secret, { until: Math.min(until, expires_at), credentials })
        recordLastUse(credentials)
        return credentials
      })
      .finally(() => {
        if (pending.get(secret) === entry) pending.delete(secret)
      })
    const entry = { until, found }
    pending.set(secret, entry)
    return found
  }

  async function find(secret: string, ip: string): Promise<Credentials | undefined> {
    const now = performance.now()
    const entry = valid.get(secret)
    if (entry !== undefined && entry.until > now) return entry.credentials
    const may_be_valid = hasKeyFormat(secret) && (rejected.get(secret) ?? 0) <= now
    const found = may_be_valid ? await lookUp(secret, ip) : undefined
    const refusal = found === undefined && entry === undefined ? failures.refusal(ip) : undefined
    if (refusal !== undefined) throw refusal
    return found
  }

  return async (request, reply) => {
    const { ip } = request
    const header = request.headers.authorization
    const secret = header && bearerToken(header)
    try {
      const found = secret && (await find(secret, ip))
      if (found) return found
      if (secret) failures.count(ip)
      throw new AppError('unauthorized', {
        message: `${unauthorizedReason(header, secret)} ${AUTHENTICATION_HELP}`,
      })
    } catch (error) {
      failures.setHeaders(ip, reply)
      throw error
    }
  }
}

/**
 * Looks up keys that are not cached as valid: a few at a time. After too many invalid keys from an address, further
 * keys from it are looked up in the slow lane (`slow-lane.ts`).
 */
function createUnknownLookup(
  sql: Sql,
  failures: FailureLimit,
): (secret: string, ip: string) => ReturnType<typeof findCredentials> {
  const unknownKeyGate = createGate(UNKNOWN_KEY_LIMITS)
  const slowLane = createSlowLane(
    (secrets) => findManyCredentials(sql, secrets),
    () =>
      new AppError('rate_limited', {
        limited_by: 'key_lookups',
        retry_after_s: 1,
        message: 'Too many keys from this address wait to be looked up: retry later.',
      }),
  )
  return async (secret, ip) => {
    if (failures.refusal(ip) === undefined) {
      // While this key waited, other requests may have exhausted the budget of the address.
      const found = await unknownKeyGate(async () =>
        failures.refusal(ip) === undefined ? { row: await findCredentials(sql, secret) } : undefined,
      )
      if (found !== undefined) return found.row
    }
    return await slowLane(networkOf(ip), secret)
  }
}

/** Records the last use of a key, at most about once a minute. */
function createLastUseRecorder({ sql, log, database }: AuthContext): (credentials: Credentials) => void {
  const recorded_at = new Map<string, number>()
  return ({ tenant_id, key_id }) => {
    const now = performance.now()
    if (now - (recorded_at.get(key_id) ?? -Infinity) < LAST_USE_INTERVAL_MS) return
    recorded_at.set(key_id, now)
    database
      .whileCurrent(() => recordKeyUse(sql, tenant_id, key_id))
      .catch((error: unknown) => log.debug({ err: error }, 'the last use of an API key was not recorded'))
  }
}

const AUTHENTICATION_HELP =
  'Send `Authorization: Bearer <API_KEY>`; an API key is `sk_live_<tenant>_<32 letters and digits>`, or `sk_test_...` for test mode.'

/** The key in an `Authorization` header; undefined if its scheme is not `Bearer`. */
function bearerToken(header: string): string | undefined {
  return /^bearer(?: |$)/i.test(header) ? header.slice(7).trim() : undefined
}

/** Explains a refusal only by the form of the header. Does not reveal whether a key is unknown, revoked or expired. */
function unauthorizedReason(header: string | undefined, secret: string | undefined): string {
  if (header === undefined) return 'No API key was sent: the header `Authorization` is missing.'
  if (secret === undefined) {
    if (/^["']?sk_(?:live|test)_/.test(header))
      return 'The header `Authorization` has a key without `Bearer` before it.'
    const [scheme] = header.split(' ', 1)
    return /^(?:basic|digest|token)$/i.test(scheme!)
      ? `The scheme of the header \`Authorization\` is \`${scheme}\`, not \`Bearer\`.`
      : 'The header `Authorization` does not begin with `Bearer`.'
  }
  if (secret === '')
    return 'The header `Authorization` has no key after `Bearer`: perhaps a variable is empty.'
  if (hasKeyFormat(secret)) return 'The API key is unknown, revoked or expired.'
  if (/^["'<]|["'>]$/.test(secret)) return 'The API key is in quotes or brackets: send it without them.'
  // A key of another service may begin with `sk_test_`, too.
  return secret.startsWith(KEY_PREFIXES.live) || /^sk_test_[a-z0-9-]{1,40}_/.test(secret)
    ? 'The API key is incomplete, or something follows it.'
    : 'This is not an API key of this service: it does not begin with `sk_live_` or `sk_test_<tenant>_`.'
}

/** Stores a value. A full cache evicts its oldest entry. */
function store<Value>(cache: Map<string, Value>, secret: string, value: Value): void {
  cache.delete(secret)
  cache.set(secret, value)
  const [oldest] = cache.keys()
  if (cache.size > MAX_CACHED_KEYS) cache.delete(oldest!)
}
