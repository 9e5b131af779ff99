// Bounds the memory of bodies that have arrived: what is asked for is there until its answer has been sent, and its handler has returned.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { onDisconnect } from '#core/leaving.ts'
import { createMemoryBudget } from './room.ts'

const MAX_BUFFERED_BYTES = 64 * 1024 * 1024
const MEMORY_LIMITS = { bytes: MAX_BUFFERED_BYTES, per_tenant: MAX_BUFFERED_BYTES / 2 }
/** What takes no more always finds room: its number is bounded by that of connections. */
const UNCOUNTED_BYTES = 16 * 1024

/** The room of a body. It is over for its caller, who has the answer or has left; its handler may still use it. */
type BodyReservation = { is_caller_done: boolean; is_in_use: boolean; release: () => void }

declare module 'fastify' {
  interface FastifyRequest {
    /** The room of its body, if that is large. */
    body_reservation?: BodyReservation
  }
}

/**
 * Holds room for a body of so many bytes until its request is answered, or its caller has left, and its handler has
 * returned. Throws `overloaded` when there is none, for the tenant or for the process.
 */
export function limitBodyMemory(app: FastifyInstance): (request: FastifyRequest, bytes: number) => void {
  const budget = createMemoryBudget(MEMORY_LIMITS)
  app.decorateRequest('body_reservation')
  app.addHook('onResponse', ({ body_reservation }, _reply, done) => {
    if (body_reservation !== undefined) finishForCaller(body_reservation)
    done()
  })
  app.addHook('onRoute', (route) => {
    const { handler } = route
    route.handler = function (request, reply) {
      const { body_reservation } = request
      const handle = () => handler.call(this, request, reply)
      return body_reservation === undefined ? handle() : handleWithBody(body_reservation, handle)
    }
  })
  return (request, bytes) => {
    if (bytes <= UNCOUNTED_BYTES) return
    const { tenant_id } = request.credentials
    if (!budget.reserve(tenant_id, bytes))
      throw new AppError('overloaded', {
        message: 'Too many large bodies are under way; this one was not taken: send it again.',
      })
    const body_reservation = {
      is_caller_done: false,
      is_in_use: false,
      release: () => budget.release(tenant_id, bytes),
    }
    request.body_reservation = body_reservation
    onDisconnect(request, () => finishForCaller(body_reservation))
  }
}

/** The caller needs the body no longer: leaves its room, unless the handler uses it. */
function finishForCaller(budget: BodyReservation): void {
  if (budget.is_caller_done) return
  budget.is_caller_done = true
  if (!budget.is_in_use) budget.release()
}

/** Handles a request while its body has room. Throws `request_timeout` when its caller left before. */
async function handleWithBody(budget: BodyReservation, handle: () => unknown): Promise<unknown> {
  if (budget.is_caller_done) throw new AppError('request_timeout')
  budget.is_in_use = true
  try {
    return await handle()
  } finally {
    budget.is_in_use = false
    if (budget.is_caller_done) budget.release()
  }
}
