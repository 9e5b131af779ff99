// An answer occupies memory until it is sent or its client is disconnected.
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'

/**
 * A client that does not read its answer within this time is disconnected. The time of a pipelined answer includes the
 * wait until earlier answers are sent.
 */
const SEND_TIMEOUT_MS = 60_000

/** Resolves when the answer is sent, or when its connection is closed. */
export async function answerSent({ raw }: FastifyReply, socket: Socket): Promise<void> {
  if (raw.writableFinished || socket.destroyed) return
  await new Promise<void>((resolve) => {
    // Listen to the socket itself: a pipelined response has no socket until the responses before it are sent, and
    // reports no close until then.
    const timeout = setTimeout(() => socket.destroy(), SEND_TIMEOUT_MS)
    const finish = () => {
      clearTimeout(timeout)
      raw.off('finish', finish)
      socket.off('close', finish)
      resolve()
    }
    socket.setMaxListeners(0)
    raw.once('finish', finish)
    socket.once('close', finish)
  })
}
