// Reads the bodies of requests, and bounds the memory of those that have not arrived whole.
import type { FastifyRequest } from 'fastify'
import { AppError } from './errors.ts'

/** The bytes that all bodies on their way to this process may hold. */
export const BODIES_ON_THEIR_WAY_BYTES = 64 * 1024 * 1024
/** A body that comes in more than one chunk gets room for at least so much, if it may become as long. */
const LEAST_BYTES = 4096
const TOO_MANY = 'Too many bodies are on their way; this one was not taken: send it again.'

const NOTHING: Buffer = Buffer.alloc(0)

/**
 * Reads a body, up to the `bodyLimit` of its route. Throws `payload_too_large`; `overloaded` when newer bodies need the
 * room; `request_timeout` when the connection ends before the body.
 */
export type ReadBody = (request: FastifyRequest) => Promise<Buffer>

/**
 * A body takes room for what has come of it, not for what it announces, which costs a caller nothing. When there is no
 * room, those longest on their way are given up: refusing the newest would let a few callers who never finish keep out
 * all others. `onRead` is told how much of a body has come, also of one that never arrived whole.
 */
export function createBodyReader(onRead?: (request: FastifyRequest, bytes: number) => void): ReadBody {
  /** How to give up each that holds anything, the oldest first. */
  const on_their_way = new Set<() => void>()
  let held = 0

  /** False when whoever asks was given up for it. */
  function takeRoom(bytes: number, giveUp: () => void): boolean {
    on_their_way.add(giveUp)
    for (const giveUpOldest of on_their_way) {
      if (held + bytes <= BODIES_ON_THEIR_WAY_BYTES) break
      giveUpOldest()
      if (giveUpOldest === giveUp) return false
    }
    held += bytes
    return true
  }

  return async (request) => {
    const { raw, headers, routeOptions } = request
    const { bodyLimit } = routeOptions
    const tooLarge = () =>
      new AppError('payload_too_large', { message: `The body is above ${bodyLimit} bytes.` })
    const most = Number(headers['content-length'] ?? bodyLimit)
    // Also if it is not a number.
    if (!(most <= bodyLimit)) throw tooLarge()
    if (raw.destroyed) throw new AppError('request_timeout')
    return await new Promise<Buffer>((resolve, reject) => {
      // One buffer that grows: a list of small chunks can take hundreds of times the bytes that are in them.
      let body = NOTHING
      let length = 0
      const onData = (chunk: Buffer) => {
        const before = length
        length += chunk.length
        if (length > most) return refuse(tooLarge())
        // Most bodies come in one chunk, which is kept as it is.
        if (before === 0) {
          if (takeRoom(length, giveUp)) body = chunk
        } else if (length <= body.length || grow(before)) chunk.copy(body, before)
      }
      /** Makes room for `length` bytes and keeps what is there; false when this body was given up for it. */
      function grow(there: number): boolean {
        const bytes = Math.min(most, Math.max(length, 2 * body.length, LEAST_BYTES))
        if (!takeRoom(bytes - body.length, giveUp)) return false
        // Node's pool would keep each of its blocks for as long as any body in it.
        const larger = Buffer.allocUnsafeSlow(bytes)
        body.copy(larger, 0, 0, there)
        body = larger
        return true
      }
      const onEnd = () => {
        leave()
        resolve(body.subarray(0, length))
      }
      const onClose = () => refuse(new AppError('request_timeout'))
      const giveUp = () => refuse(new AppError('overloaded', { message: TOO_MANY }))
      function refuse(error: AppError): void {
        leave()
        reject(error)
      }
      function leave(): void {
        raw.off('data', onData).off('end', onEnd).off('close', onClose)
        on_their_way.delete(giveUp)
        held -= body.length
        onRead?.(request, length)
      }
      raw.on('data', onData).once('end', onEnd).once('close', onClose)
    })
  }
}
