// Limits how many cookies without a session may come from one address: each costs a look-up over few connections.
import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { createFailures } from '#api/failures.ts'
import { AppError } from '#core/errors.ts'
import { createGate } from '#core/gate.ts'

/** The cookie of a session; others, as in the middle of signing in, lead to no look-up. */
const SESSION_COOKIE = /\bsluice\.session_token=/
const MOST_KNOWN = 10_000
/** Limits the look-ups of cookies that this process has not seen as valid. */
const UNKNOWN = {
  running: 8,
  queue: { waiting: 256, wait_ms: 1_000, refuse: () => new AppError('overloaded') },
}

/**
 * Looks up sessions by `find`. Throws `rate_limited` instead when too many cookies without one came from the same
 * address. A cookie that was valid last time is looked up whatever else its address has sent.
 */
export function createSessionsGate(): <T>(
  request: FastifyRequest,
  find: () => Promise<T | undefined>,
) => Promise<T | undefined> {
  const failures = createFailures('sessions that have ended')
  const known = new Set<string>()
  const gate = createGate(UNKNOWN)

  return async ({ ip, headers }, find) => {
    if (headers.cookie === undefined || !SESSION_COOKIE.test(headers.cookie)) return undefined
    const cookie = createHash('sha256').update(headers.cookie).digest('base64')
    const look = async () => {
      const found = await find()
      if (found === undefined) {
        known.delete(cookie)
        failures.count(ip)
        return undefined
      }
      known.add(cookie)
      const [oldest] = known
      if (known.size > MOST_KNOWN) known.delete(oldest!)
      return found
    }
    const assertFew = () => {
      const refusal = failures.refusal(ip)
      if (refusal !== undefined) throw refusal
    }
    if (known.has(cookie)) return await look()
    assertFew()
    return await gate(async () => {
      // Others may have used up the budget while this one waited.
      assertFew()
      return await look()
    })
  }
}
