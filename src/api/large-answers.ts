// Single answers that may be as long as a list: their bytes are bounded until the callers have taken them.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { createByteGates, type ByteRoom } from '#core/gate.ts'
import { whileThere } from '#core/leaving.ts'
import { answerTaken } from './taken.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The room of its answer, where that may be large. */
    answer_room?: ByteRoom
  }
}

const MIB = 1024 * 1024
/** What an answer is taken for until it is known: two texts of a million characters, in letters of any language. */
const EXPECTED_BYTES = 8 * MIB
const QUEUE = {
  waiting: 256,
  wait_ms: 5_000,
  refuse: () =>
    new AppError('rate_limited', {
      retry_after_s: 1,
      message: 'Too many large answers are under way or unread: read them before you ask for more.',
    }),
}
const OF_A_KEY = { bytes: 4 * EXPECTED_BYTES, queue: QUEUE }
const OF_A_TENANT = { bytes: 8 * EXPECTED_BYTES, queue: QUEUE }

export type LargeAnswers = {
  /** Waits until there is room for the answer to a request. Throws `rate_limited`. */
  makeRoom(request: FastifyRequest): Promise<void>
  /** The answer has so many bytes; they count until it is taken. */
  count(request: FastifyRequest, reply: FastifyReply, bytes: number): void
}

/** Bounds the large answers of each key and of each tenant. */
export function createLargeAnswers(): LargeAnswers {
  const of_a_key = createByteGates(OF_A_KEY)
  const of_a_tenant = createByteGates(OF_A_TENANT)

  return {
    async makeRoom(request) {
      const { key_id, tenant_id } = request.credentials
      const bytes = request.routeOptions.config.literal?.large === 'expected' ? EXPECTED_BYTES : 0
      request.answer_room = await whileThere(request, async (signal) => {
        const key = await of_a_key(key_id, bytes, signal)
        try {
          const tenant = await of_a_tenant(tenant_id, bytes, signal)
          return {
            resize: (actual) => [key, tenant].forEach((room) => room.resize(actual)),
            leave: () => [key, tenant].forEach((room) => room.leave()),
          }
        } catch (error) {
          key.leave()
          throw error
        }
      })
    },
    count(request, reply, bytes) {
      const room = request.answer_room
      if (room === undefined) return
      room.resize(bytes)
      void answerTaken(reply, request.raw.socket).then(() => room.leave())
    },
  }
}
