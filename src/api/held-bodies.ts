// Bounds the memory of bodies that have arrived: what is asked for is there until its answer has been sent, and its handler has returned.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { onLeft } from '#core/leaving.ts'
import { createRoom } from './room.ts'

const HELD_BYTES = 64 * 1024 * 1024
const ROOM = { bytes: HELD_BYTES, of_tenant: HELD_BYTES / 2 }
/** What takes no more always finds room: its number is bounded by that of connections. */
const SMALL_BYTES = 16 * 1024

/** The room of a body. It is over for its caller, who has the answer or has left; its handler may still use it. */
type BodyRoom = { is_over: boolean; is_used: boolean; leave: () => void }

declare module 'fastify' {
  interface FastifyRequest {
    /** The room of its body, if that is large. */
    body_room?: BodyRoom
  }
}

/**
 * Holds room for a body of so many bytes until its request is answered, or its caller has left, and its handler has
 * returned. Throws `overloaded` when there is none, for the tenant or for the process.
 */
export function holdBodies(app: FastifyInstance): (request: FastifyRequest, bytes: number) => void {
  const room = createRoom(ROOM)
  app.decorateRequest('body_room')
  app.addHook('onResponse', ({ body_room }, _reply, done) => {
    if (body_room !== undefined) endFor(body_room)
    done()
  })
  app.addHook('onRoute', (route) => {
    const { handler } = route
    route.handler = function (request, reply) {
      const { body_room } = request
      const handle = () => handler.call(this, request, reply)
      return body_room === undefined ? handle() : whileUsed(body_room, handle)
    }
  })
  return (request, bytes) => {
    if (bytes <= SMALL_BYTES) return
    const { tenant_id } = request.credentials
    if (!room.take(tenant_id, bytes))
      throw new AppError('overloaded', {
        message: 'Too many large bodies are under way; this one was not taken: send it again.',
      })
    const body_room = { is_over: false, is_used: false, leave: () => room.leave(tenant_id, bytes) }
    request.body_room = body_room
    onLeft(request, () => endFor(body_room))
  }
}

/** The caller needs the body no longer: leaves its room, unless the handler uses it. */
function endFor(room: BodyRoom): void {
  if (room.is_over) return
  room.is_over = true
  if (!room.is_used) room.leave()
}

/** Handles a request while its body has room. Throws `request_timeout` when its caller left before. */
async function whileUsed(room: BodyRoom, handle: () => unknown): Promise<unknown> {
  if (room.is_over) throw new AppError('request_timeout')
  room.is_used = true
  try {
    return await handle()
  } finally {
    room.is_used = false
    if (room.is_over) room.leave()
  }
}
