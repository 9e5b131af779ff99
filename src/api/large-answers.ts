// Limits the bytes of large answers, such as single messages, until callers have read them.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { createByteLimiters, type ByteReservation } from '#core/gate.ts'
import { whileConnected } from '#core/leaving.ts'
import { answerSent } from './answer-sent.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The memory reserved for its answer, if the answer may be large. */
    answer_reservation?: ByteReservation
  }
}

const MIB = 1024 * 1024
/**
 * The bytes that are reserved before an answer is read from the database: two texts of a million characters in any
 * language.
 */
const EXPECTED_BYTES = 8 * MIB
const QUEUE = {
  waiting: 256,
  wait_ms: 5_000,
  refuse: () =>
    new AppError('rate_limited', {
      limited_by: 'answers',
      retry_after_s: 1,
      message: 'Too many large answers are in progress or unread: read them before you request more.',
    }),
}
const KEY_LIMITS = { bytes: 4 * EXPECTED_BYTES, queue: QUEUE }
const TENANT_LIMITS = { bytes: 8 * EXPECTED_BYTES, queue: QUEUE }

export type LargeAnswers = {
  /** Waits until there is memory for the answer to a request. Throws `rate_limited`. */
  reserve(request: FastifyRequest): Promise<void>
  /** Counts the bytes of an answer until it is sent. */
  count(request: FastifyRequest, reply: FastifyReply, bytes: number): void
}

/** Limits the large answers of each key and of each tenant. */
export function createLargeAnswers(): LargeAnswers {
  const keyGates = createByteLimiters(KEY_LIMITS)
  const tenantGates = createByteLimiters(TENANT_LIMITS)

  return {
    async reserve(request) {
      const { key_id, tenant_id } = request.credentials
      const bytes = request.routeOptions.config.definition?.large === 'expected' ? EXPECTED_BYTES : 0
      request.answer_reservation = await whileConnected(request, async (signal) => {
        const key = await keyGates(key_id, bytes, signal)
        try {
          const tenant = await tenantGates(tenant_id, bytes, signal)
          return {
            resize: (actual) => [key, tenant].forEach((reservation) => reservation.resize(actual)),
            release: () => [key, tenant].forEach((reservation) => reservation.release()),
          }
        } catch (error) {
          key.release()
          throw error
        }
      })
    },
    count(request, reply, bytes) {
      const reservation = request.answer_reservation
      if (reservation === undefined) return
      reservation.resize(bytes)
      void answerSent(reply, request.raw.socket).then(() => reservation.release())
    },
  }
}
