// Limits session lookups by address and by user: all lookups share few connections.
import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { createFailureLimit } from '#api/failures.ts'
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'

/** The session cookie. Without it, such as during sign-in, there is no lookup. */
const SESSION_COOKIE = /\bsluice\.session_token=/
const MAX_CACHED_COOKIES = 10_000
/**
 * Maximum number of cached cookie headers of one user: a client can vary the header around a valid cookie without
 * limit.
 */
const MAX_COOKIES_PER_USER = 20
/** Limits of the lookups of one user's cached cookies. */
const USER_GATE = {
  running: 4,
  queue: {
    waiting: 100,
    wait_ms: 5_000,
    refuse: () =>
      new AppError('rate_limited', {
        limited_by: 'sessions',
        retry_after_s: 1,
        message: 'Too many of your requests are waiting for a session lookup: send fewer at once.',
      }),
  },
}
/** Limits of the lookups of cookies that this process has not cached. */
const NEW_COOKIE_GATE = {
  running: 8,
  queue: {
    waiting: 256,
    wait_ms: 1_000,
    refuse: () =>
      new AppError('overloaded', {
        limited_by: 'sessions',
        message: 'Too many session lookups are waiting: try again soon.',
      }),
  },
}

/**
 * Limits session lookups by `find`. Throws `rate_limited` after too many invalid cookies from one address, or if too
 * many lookups of one user are waiting, and `overloaded` if too many lookups of new cookies are waiting. The limit of
 * an address does not apply to cookies that were valid at their last lookup.
 */
export function createSessionGate(): <T extends { signed_in: { user_id: string } }>(
  request: FastifyRequest,
  find: () => Promise<T | undefined>,
) => Promise<T | undefined> {
  const failures = createFailureLimit('sessions that have ended')
  /** The user of each cached cookie, and the cached cookies of each user, in the order in which they were cached. */
  const user_by_cookie = new Map<string, string>()
  const cookies_by_user = new Map<string, Set<string>>()
  const gateNewCookie = createGate(NEW_COOKIE_GATE)
  const gateUser = createGates(USER_GATE)

  function evict(cookie: string): void {
    const user_id = user_by_cookie.get(cookie)
    if (user_id === undefined) return
    user_by_cookie.delete(cookie)
    const cookies = cookies_by_user.get(user_id)
    cookies?.delete(cookie)
    if (cookies?.size === 0) cookies_by_user.delete(user_id)
  }

  function cache(cookie: string, user_id: string, ip: string): void {
    if (user_by_cookie.get(cookie) === user_id) return
    evict(cookie)
    user_by_cookie.set(cookie, user_id)
    const cookies = cookies_by_user.get(user_id) ?? new Set()
    cookies_by_user.set(user_id, cookies.add(cookie))
    if (cookies.size > MAX_COOKIES_PER_USER) {
      const [oldest] = cookies
      evict(oldest!)
      failures.count(ip)
    }
    if (user_by_cookie.size > MAX_CACHED_COOKIES) {
      const [oldest] = user_by_cookie.keys()
      evict(oldest!)
    }
  }

  return async ({ ip, headers }, find) => {
    if (headers.cookie === undefined || !SESSION_COOKIE.test(headers.cookie)) return undefined
    const cookie = createHash('sha256').update(headers.cookie).digest('base64')
    const lookUp = async () => {
      const found = await find()
      if (found === undefined) {
        evict(cookie)
        failures.count(ip)
        return undefined
      }
      cache(cookie, found.signed_in.user_id, ip)
      return found
    }
    const assertFewFailures = () => {
      const refusal = failures.refusal(ip)
      if (refusal !== undefined) throw refusal
    }
    const user_id = user_by_cookie.get(cookie)
    if (user_id !== undefined) return await gateUser(user_id, lookUp)
    assertFewFailures()
    return await gateNewCookie(async () => {
      // Other requests may have used up the limit while this one waited.
      assertFewFailures()
      return await lookUp()
    })
  }
}
