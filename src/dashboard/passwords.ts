// Guards the trying of passwords: how many are wrong, and how many are hashed at all.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '#core/network.ts'
import { createLimit } from '#api/limit.ts'
import { AppError } from '#core/errors.ts'
import { createGate } from '#core/gate.ts'
import { countSignInFailure, undoSignInFailure } from '#domain/people/sign-in-limit.ts'
import type { DashboardContext } from './context.ts'

/** Hashing a password takes 32 MB and a tenth of a second of a processor. */
export function createHashingGate({ running, waiting }: { running: number; waiting: number }) {
  const refuse = () => new AppError('overloaded', { message: 'Too many passwords wait to be checked.' })
  return createGate({ running, queue: { waiting, wait_ms: 5_000, refuse } })
}

/** Passwords that are hashed, right or wrong. Behind one address there may be an office. */
const ACCOUNT_LIMIT = { rps: 0.5, burst: 20, max_buckets: 100_000 }
const ADDRESS_LIMIT = { rps: 1, burst: 60, max_buckets: 100_000 }

/** Runs `verify`, which looks at a password given for the account of this email address and answers whether it was right. */
export type PasswordGuard = (
  request: FastifyRequest,
  reply: FastifyReply,
  email: string,
  verify: () => Promise<Response>,
) => Promise<Response>

/**
 * A guard with room of its own. A wrong password counts, whoever tries it and where, in all guards and processes
 * together. Throws `rate_limited`.
 */
export function createPasswordGuard({ sql, hashOf }: DashboardContext): PasswordGuard {
  const hashing = createHashingGate({ running: 4, waiting: 64 })
  const [limitAccount, limitAddress] = [createLimit(ACCOUNT_LIMIT), createLimit(ADDRESS_LIMIT)]
  return async (request, reply, email, verify) => {
    const address = networkOf(request.ip)
    const attempt = { account: hashOf('email', email.slice(0, 320).toLowerCase()), address }
    limitAddress(address, reply)
    limitAccount(attempt.account, reply)
    const retry_after_s = await countSignInFailure(sql, attempt)
    if (retry_after_s !== null)
      throw new AppError('rate_limited', {
        message: 'Too many wrong passwords: wait before you try again.',
        retry_after_s,
      })
    const response = await hashing(verify)
    if (response.ok) await undoSignInFailure(sql, attempt)
    return response
  }
}
