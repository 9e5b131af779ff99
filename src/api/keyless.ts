// Limits the cost of callers without a valid key.
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { networkOf } from '#core/network.ts'
import { createLimit } from './limit.ts'

/** The budget of each address on routes that need no key. A search of the guides takes about two milliseconds. */
const ADDRESS_BUDGET = { rps: 100, burst: 1_000, max_buckets: 20_000 }
/** The bytes of an answer that count as one more request. */
const BYTES_PER_REQUEST = 64 * 1024
/** The maximum number of unread answers on one connection. Browsers leave at most one answer unread. */
const MAX_UNREAD_ANSWERS = 16

export type KeylessLimits = {
  /** Counts a request. Throws `rate_limited` if its address has exhausted its budget. */
  limit(request: FastifyRequest, reply: FastifyReply): void
  /** Counts the bytes of an answer. */
  charge(request: FastifyRequest, bytes: number): void
  /**
   * Counts an answer until it is sent. Disconnects a caller with too many unread answers, and throws `rate_limited`.
   */
  countUnread(request: FastifyRequest, reply: FastifyReply): void
}

export function createKeylessLimits(): KeylessLimits {
  const limit = createLimit(ADDRESS_BUDGET)
  const unread = new WeakMap<Socket, number>()

  return {
    limit: ({ ip }, reply) => limit(networkOf(ip), reply),
    charge({ ip }, bytes) {
      const extra = Math.floor(bytes / BYTES_PER_REQUEST)
      if (extra > 0) limit.charge(networkOf(ip), extra)
    },
    countUnread({ raw: { socket } }, { raw: response }) {
      const count = (change: number) => {
        const waiting = (unread.get(socket) ?? 0) + change
        unread.set(socket, waiting)
        return waiting
      }
      if (count(1) > MAX_UNREAD_ANSWERS) {
        socket.destroy()
        throw new AppError('rate_limited', { retry_after_s: 1, limited_by: 'answers' })
      }
      response.once('finish', () => count(-1))
    },
  }
}
