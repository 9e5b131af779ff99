// Limits how many cookies without a session may come from one address: each costs a look-up over few connections.
import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createFailures } from '#api/failures.ts'
import { AppError } from '#core/errors.ts'
import { createGate } from '#core/gate.ts'

const MOST_KNOWN = 10_000
/** Limits the look-ups of cookies that this process has not seen as valid. */
const UNKNOWN = {
  running: 8,
  queue: { waiting: 256, wait_ms: 1_000, refuse: () => new AppError('overloaded') },
}

/**
 * Looks up sessions; `enter` throws `unauthorized` where there is none. Throws `rate_limited` instead when too many such
 * came from the same address. A cookie that was valid last time is looked up whatever else its address has sent.
 */
export function createSessionsGate(): <T>(
  request: FastifyRequest,
  reply: FastifyReply,
  enter: () => Promise<T>,
) => Promise<T> {
  const failures = createFailures('sessions that have ended')
  const known = new Set<string>()
  const gate = createGate(UNKNOWN)

  return async (request, reply, enter) => {
    const { ip, headers } = request
    // Without a cookie nothing is looked up.
    if (headers.cookie === undefined) return await enter()
    const cookie = createHash('sha256').update(headers.cookie).digest('base64')
    const assertFew = () => {
      const refusal = failures.refusal(ip)
      if (refusal === undefined) return
      failures.tell(ip, reply)
      throw refusal
    }
    try {
      if (known.has(cookie)) return await enter()
      assertFew()
      return await gate(async () => {
        // Others may have used up the budget while this one waited.
        assertFew()
        const entered = await enter()
        known.add(cookie)
        const [oldest] = known
        if (known.size > MOST_KNOWN) known.delete(oldest!)
        return entered
      })
    } catch (error) {
      if (error instanceof AppError && error.code === 'unauthorized') {
        known.delete(cookie)
        failures.count(ip)
      }
      throw error
    }
  }
}
