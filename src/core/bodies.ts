// Reads the bodies of requests, and bounds the memory of those that have not arrived whole.
import type { FastifyRequest } from 'fastify'
import { AppError } from './errors.ts'

/** The bytes that all bodies on their way to this process may hold. */
export const MAX_BUFFERED_BODY_BYTES = 64 * 1024 * 1024
/** A body that comes in more than one chunk gets room for at least so much, if it may become as long. */
const MIN_BUFFER_BYTES = 4096
const EVICTED_MESSAGE = 'Too many bodies are on their way; this one was not taken: send it again.'

const EMPTY_BODY: Buffer = Buffer.alloc(0)

/**
 * Reads a body, up to the `bodyLimit` of its route. Throws `payload_too_large`; `overloaded` when newer bodies need the
 * room; `request_timeout` when the connection ends before the body.
 */
export type BodyReader = (request: FastifyRequest) => Promise<Buffer>

/**
 * A body takes room for what has come of it, not for what it announces, which costs a caller nothing. When there is no
 * room, those longest on their way are given up: refusing the newest would let a few callers who never finish keep out
 * all others. `onRead` is told how much of a body has come, also of one that never arrived whole.
 */
export function createBodyReader(onRead?: (request: FastifyRequest, bytes: number) => void): BodyReader {
  /** How to give up each that holds anything, the oldest first. */
  const open_bodies = new Set<() => void>()
  let buffered_bytes = 0

  /** False when whoever asks was given up for it. */
  function reserve(bytes: number, evict: () => void): boolean {
    open_bodies.add(evict)
    for (const evictOldest of open_bodies) {
      if (buffered_bytes + bytes <= MAX_BUFFERED_BODY_BYTES) break
      evictOldest()
      if (evictOldest === evict) return false
    }
    buffered_bytes += bytes
    return true
  }

  return async (request) => {
    const { raw, headers, routeOptions } = request
    const { bodyLimit } = routeOptions
    const tooLarge = () =>
      new AppError('payload_too_large', { message: `The body is above ${bodyLimit} bytes.` })
    const max_length = Number(headers['content-length'] ?? bodyLimit)
    // Also if it is not a number.
    if (!(max_length <= bodyLimit)) throw tooLarge()
    if (raw.destroyed) throw new AppError('request_timeout')
    return await new Promise<Buffer>((resolve, reject) => {
      // One buffer that grows: a list of small chunks can take hundreds of times the bytes that are in them.
      let body = EMPTY_BODY
      let length = 0
      const onData = (chunk: Buffer) => {
        const previous_length = length
        length += chunk.length
        if (length > max_length) return refuse(tooLarge())
        // Most bodies come in one chunk, which is kept as it is.
        if (previous_length === 0) {
          if (reserve(length, evict)) body = chunk
        } else if (length <= body.length || grow(previous_length)) chunk.copy(body, previous_length)
      }
      /** Makes room for `length` bytes and keeps what is there; false when this body was given up for it. */
      function grow(copied: number): boolean {
        const bytes = Math.min(max_length, Math.max(length, 2 * body.length, MIN_BUFFER_BYTES))
        if (!reserve(bytes - body.length, evict)) return false
        // Node's pool would keep each of its blocks for as long as any body in it.
        const larger = Buffer.allocUnsafeSlow(bytes)
        body.copy(larger, 0, 0, copied)
        body = larger
        return true
      }
      const onEnd = () => {
        detach()
        resolve(body.subarray(0, length))
      }
      const onClose = () => refuse(new AppError('request_timeout'))
      const evict = () => refuse(new AppError('overloaded', { message: EVICTED_MESSAGE }))
      function refuse(error: AppError): void {
        detach()
        reject(error)
      }
      function detach(): void {
        raw.off('data', onData).off('end', onEnd).off('close', onClose)
        open_bodies.delete(evict)
        buffered_bytes -= body.length
        onRead?.(request, length)
      }
      raw.on('data', onData).once('end', onEnd).once('close', onClose)
    })
  }
}
