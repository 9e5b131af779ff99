// Reads the bodies of requests, and bounds the memory of those that have not arrived whole.
import type { FastifyRequest } from 'fastify'
import { AppError } from './errors.ts'

/** The bytes of all bodies on their way to this process, as announced; without Content-Length the limit counts. */
export const BODIES_ON_THEIR_WAY_BYTES = 64 * 1024 * 1024

/**
 * Reads a body, up to the `bodyLimit` of its route. Throws `payload_too_large`; `overloaded` when newer bodies need the
 * room; `request_timeout` when the connection ends before the body.
 */
export type ReadBody = (request: FastifyRequest) => Promise<Buffer>

/**
 * When there is no room for a body, those longest on their way are given up: refusing the newest would let a few
 * callers who never finish keep out all others.
 */
export function createBodyReader(): ReadBody {
  /** How to give up each, the oldest first. */
  const on_their_way = new Set<() => void>()
  let reserved = 0

  // Not within the function that waits: it would keep hold of the last one that it gave up.
  function makeRoom(bytes: number): void {
    for (const giveUp of on_their_way) {
      if (reserved + bytes <= BODIES_ON_THEIR_WAY_BYTES) return
      giveUp()
    }
  }

  return async ({ raw, headers, routeOptions: { bodyLimit } }) => {
    const tooLarge = () =>
      new AppError('payload_too_large', { message: `The body is above ${bodyLimit} bytes.` })
    const bytes = Number(headers['content-length'] ?? bodyLimit)
    if (bytes > bodyLimit) throw tooLarge()
    if (raw.destroyed) throw new AppError('request_timeout')
    makeRoom(bytes)
    return await new Promise<Buffer>((resolve, reject) => {
      // One buffer from the beginning: a list of small chunks can take hundreds of times the bytes that are in them.
      const body = Buffer.allocUnsafe(bytes)
      let length = 0
      const onData = (chunk: Buffer) => {
        if (length + chunk.length > bytes) return refuse(tooLarge())
        length += chunk.copy(body, length)
      }
      const onEnd = () => {
        leave()
        resolve(body.subarray(0, length))
      }
      const onClose = () => refuse(new AppError('request_timeout'))
      const giveUp = () => refuse(new AppError('overloaded'))
      function refuse(error: AppError): void {
        leave()
        reject(error)
      }
      function leave(): void {
        raw.off('data', onData).off('end', onEnd).off('close', onClose)
        on_their_way.delete(giveUp)
        reserved -= bytes
      }
      on_their_way.add(giveUp)
      reserved += bytes
      raw.on('data', onData).once('end', onEnd).once('close', onClose)
    })
  }
}
