// Until when an answer takes memory.
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'

/**
 * A client that does not receive its answer in this time is disconnected. (In a pipeline, the answer may have to wait for
 * an earlier one.)
 */
const SEND_TIMEOUT_MS = 60_000

/** Resolves when the answer has been sent, or cannot be sent any more. */
export async function answerSent({ raw }: FastifyReply, socket: Socket): Promise<void> {
  if (raw.writableFinished || socket.destroyed) return
  await new Promise<void>((resolve) => {
    // The response of a pipelined request gets its socket only when those before it are sent, and is not told when
    // the socket closes.
    const late = setTimeout(() => socket.destroy(), SEND_TIMEOUT_MS)
    const over = () => {
      clearTimeout(late)
      raw.off('finish', over)
      socket.off('close', over)
      resolve()
    }
    socket.setMaxListeners(0)
    raw.once('finish', over)
    socket.once('close', over)
  })
}
