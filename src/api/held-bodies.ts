// Bounds the memory of bodies that have arrived: what is asked for is there until its answer has been sent.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { onLeft } from '#core/leaving.ts'
import { createRoom } from './room.ts'

const HELD_BYTES = 64 * 1024 * 1024
const ROOM = { bytes: HELD_BYTES, of_tenant: HELD_BYTES / 2 }
/** What takes no more always finds room: its number is bounded by that of connections. */
const SMALL_BYTES = 16 * 1024

declare module 'fastify' {
  interface FastifyRequest {
    /** Gives back the room of its body. */
    leave_room?: () => void
  }
}

/**
 * Holds room for a body of so many bytes until its request is answered, or its caller has left. Throws `overloaded` when
 * there is none, for the tenant or for the process.
 */
export function holdBodies(app: FastifyInstance): (request: FastifyRequest, bytes: number) => void {
  const room = createRoom(ROOM)
  app.decorateRequest('leave_room')
  app.addHook('onResponse', (request, _reply, done) => {
    request.leave_room?.()
    done()
  })
  return (request, bytes) => {
    if (bytes <= SMALL_BYTES) return
    const { tenant_id } = request.credentials
    if (!room.take(tenant_id, bytes))
      throw new AppError('overloaded', {
        message: 'Too many large bodies are under way; this one was not taken: send it again.',
      })
    request.leave_room = () => {
      delete request.leave_room
      room.leave(tenant_id, bytes)
    }
    onLeft(request, () => request.leave_room?.())
  }
}
