// Limits password checks: wrong passwords, checks per account and address, and concurrent hashing.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '#core/network.ts'
import { createLimit } from '#api/limit.ts'
import { AppError } from '#core/errors.ts'
import { createGate } from '#core/gate.ts'
import { countSignInFailure, undoSignInFailure } from '#domain/people/sign-in-limit.ts'
import type { DashboardContext } from './context.ts'

/**
 * Creates a gate that limits concurrent hashing: a hash takes 32 MB of memory and 0.1 s of CPU time. The gate throws
 * `overloaded` if too many passwords are waiting.
 */
export function createHashingGate({ running, waiting }: { running: number; waiting: number }) {
  const refuse = () =>
    new AppError('overloaded', {
      limited_by: 'passwords',
      message: 'Too many passwords are waiting to be checked: try again soon.',
    })
  return createGate({ running, queue: { waiting, wait_ms: 5_000, refuse } })
}

/**
 * Limits of password checks, whether the password is right or wrong: for each account, and for each client network.
 * All users in an office may share one network address, so the limit of a network is higher.
 */
const ACCOUNT_LIMIT = { rps: 0.5, burst: 20, max_buckets: 100_000 }
const ADDRESS_LIMIT = { rps: 1, burst: 60, max_buckets: 100_000 }

/**
 * Runs `verify`, which checks a password of the account with this email address, and returns its response. The response
 * is `ok` if the password is right.
 */
export type PasswordGuard = (
  request: FastifyRequest,
  reply: FastifyReply,
  email: string,
  verify: () => Promise<Response>,
) => Promise<Response>

/**
 * Creates a guard with its own hashing capacity. Wrong passwords are counted across all guards and processes. The guard
 * throws `rate_limited` after too many checks or wrong passwords, and `overloaded` if too many passwords are waiting.
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
        limited_by: 'passwords',
        message: 'Too many wrong passwords: wait before you try again.',
        retry_after_s,
      })
    const response = await hashing(verify)
    if (response.ok) await undoSignInFailure(sql, attempt)
    return response
  }
}
