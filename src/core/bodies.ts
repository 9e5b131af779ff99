// Reads request bodies, and limits the memory of incomplete bodies.
import type { FastifyRequest } from 'fastify'
import { AppError } from './errors.ts'

/** The maximum bytes of all incomplete bodies in this process. */
export const MAX_BUFFERED_BODY_BYTES = 64 * 1024 * 1024
/** The minimum buffer of a body with more than one chunk, unless the body's limit is lower. */
const MIN_BUFFER_BYTES = 4096
const EVICTED_MESSAGE =
  'Too many request bodies arrive at once, and this one was dropped: send the request again.'

const EMPTY_BODY: Buffer = Buffer.alloc(0)

/**
 * Reads a body up to the `bodyLimit` of its route. Throws `payload_too_large`; `overloaded` if newer bodies need the
 * memory; `request_timeout` if the connection closes before the end of the body.
 */
export type BodyReader = (request: FastifyRequest) => Promise<Buffer>

/**
 * Creates a reader. A body uses memory for the bytes that have arrived, not for its announced length. Without free
 * memory the oldest incomplete bodies are evicted: if the newest were refused, a few callers that never finish would
 * lock out all others. `onRead` is called with the number of received bytes of each body, even of an incomplete body.
 */
export function createBodyReader(onRead?: (request: FastifyRequest, bytes: number) => void): BodyReader {
  /** The eviction function of each incomplete body, the oldest first. */
  const open_bodies = new Set<() => void>()
  let buffered_bytes = 0

  /** Reserves memory, if necessary by evicting the oldest bodies. False if the requesting body itself was evicted. */
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
      new AppError('payload_too_large', { message: `The body exceeds ${bodyLimit} bytes.` })
    const max_length = Number(headers['content-length'] ?? bodyLimit)
    // Not `max_length > bodyLimit`, which would accept NaN.
    if (!(max_length <= bodyLimit)) throw tooLarge()
    if (raw.destroyed) throw new AppError('request_timeout')
    return await new Promise<Buffer>((resolve, reject) => {
      // One buffer that grows: a list of small chunks can use hundreds of times their bytes.
      let body = EMPTY_BODY
      let length = 0
      const onData = (chunk: Buffer) => {
        const previous_length = length
        length += chunk.length
        if (length > max_length) return refuse(tooLarge())
        // Most bodies arrive in one chunk, which is used as it is.
        if (previous_length === 0) {
          if (reserve(length, evict)) body = chunk
        } else if (length <= body.length || grow(previous_length)) chunk.copy(body, previous_length)
      }
      /**
       * Replaces the buffer with a larger one for at least `length` bytes, with the first `copied` bytes of the old
       * one. False if this body was evicted.
       */
      function grow(copied: number): boolean {
        const bytes = Math.min(max_length, Math.max(length, 2 * body.length, MIN_BUFFER_BYTES))
        if (!reserve(bytes - body.length, evict)) return false
        // A pooled buffer would keep its whole block in memory.
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
      const evict = () =>
        refuse(new AppError('overloaded', { limited_by: 'bodies', message: EVICTED_MESSAGE }))
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
