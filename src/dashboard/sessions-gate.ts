// Limits how many look-ups of sessions an address and a user may cause: they have few connections, which all share.
import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { createFailures } from '#api/failures.ts'
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'

/** The cookie of a session; others, as in the middle of signing in, lead to no look-up. */
const SESSION_COOKIE = /\bsluice\.session_token=/
const MOST_KNOWN = 10_000
/** Of one user. Whoever adds something to a valid cookie again and again has as many as they like. */
const MOST_OF_A_USER = 20
/** Limits the look-ups of cookies that are known to be of one user. */
const OF_A_USER = {
  running: 4,
  queue: {
    waiting: 100,
    wait_ms: 5_000,
    refuse: () =>
      new AppError('rate_limited', {
        retry_after_s: 1,
        message: 'Too many of your requests wait for your session to be looked up: send fewer at once.',
      }),
  },
}
/** Limits the look-ups of cookies that this process has not seen as valid. */
const UNKNOWN = {
  running: 8,
  queue: {
    waiting: 256,
    wait_ms: 1_000,
    refuse: () => new AppError('overloaded', { message: 'Too many sessions wait to be looked up.' }),
  },
}

/**
 * Looks up sessions by `find`. Throws `rate_limited` instead when too many cookies without one came from the same
 * address, or too many look-ups of one user are under way. A cookie that was valid last time is looked up whatever else
 * its address has sent.
 */
export function createSessionsGate(): <T extends { signed_in: { user_id: string } }>(
  request: FastifyRequest,
  find: () => Promise<T | undefined>,
) => Promise<T | undefined> {
  const failures = createFailures('sessions that have ended')
  /** Whose each cookie is, and the cookies of each user; the oldest first. */
  const known = new Map<string, string>()
  const of_users = new Map<string, Set<string>>()
  const gate = createGate(UNKNOWN)
  const of_a_user = createGates(OF_A_USER)

  function forget(cookie: string): void {
    const user_id = known.get(cookie)
    if (user_id === undefined) return
    known.delete(cookie)
    const cookies = of_users.get(user_id)
    cookies?.delete(cookie)
    if (cookies?.size === 0) of_users.delete(user_id)
  }

  function remember(cookie: string, user_id: string, ip: string): void {
    if (known.get(cookie) === user_id) return
    forget(cookie)
    known.set(cookie, user_id)
    const cookies = of_users.get(user_id) ?? new Set()
    of_users.set(user_id, cookies.add(cookie))
    if (cookies.size > MOST_OF_A_USER) {
      const [oldest] = cookies
      forget(oldest!)
      failures.count(ip)
    }
    if (known.size > MOST_KNOWN) {
      const [oldest] = known.keys()
      forget(oldest!)
    }
  }

  return async ({ ip, headers }, find) => {
    if (headers.cookie === undefined || !SESSION_COOKIE.test(headers.cookie)) return undefined
    const cookie = createHash('sha256').update(headers.cookie).digest('base64')
    const look = async () => {
      const found = await find()
      if (found === undefined) {
        forget(cookie)
        failures.count(ip)
        return undefined
      }
      remember(cookie, found.signed_in.user_id, ip)
      return found
    }
    const assertFew = () => {
      const refusal = failures.refusal(ip)
      if (refusal !== undefined) throw refusal
    }
    const user_id = known.get(cookie)
    if (user_id !== undefined) return await of_a_user(user_id, look)
    assertFew()
    return await gate(async () => {
      // Others may have used up the budget while this one waited.
      assertFew()
      return await look()
    })
  }
}
