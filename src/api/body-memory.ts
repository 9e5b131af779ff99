// Limits the memory of received bodies. A body occupies memory until its answer is sent and its handler has returned.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { onDisconnect } from '#core/leaving.ts'
import { createMemoryBudget } from './memory-budget.ts'

const MAX_BUFFERED_BYTES = 64 * 1024 * 1024
const MEMORY_LIMITS = { bytes: MAX_BUFFERED_BYTES, per_tenant: MAX_BUFFERED_BYTES / 2 }
/** Bodies up to this size are not counted: the number of connections bounds them. */
const UNCOUNTED_BYTES = 16 * 1024

/**
 * The memory of a body. `is_caller_done`: the caller has the answer or has disconnected. `is_in_use`: the handler runs.
 */
type BodyReservation = { is_caller_done: boolean; is_in_use: boolean; release: () => void }

declare module 'fastify' {
  interface FastifyRequest {
    /** The memory reserved for its body, if the body is large. */
    body_reservation?: BodyReservation
  }
}

/**
 * Reserves memory for a body until its request is answered or its caller has left, and its handler has returned. Throws
 * `overloaded` if the tenant or the process has no memory left.
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
        limited_by: 'body_memory',
        message: 'Too many large bodies are in progress. This request was not accepted: send it again.',
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

/** The caller no longer needs the body: releases its memory unless the handler uses it. */
function finishForCaller(reservation: BodyReservation): void {
  if (reservation.is_caller_done) return
  reservation.is_caller_done = true
  if (!reservation.is_in_use) reservation.release()
}

/** Runs the handler while its body is in memory. Throws `request_timeout` if the caller has left. */
async function handleWithBody(reservation: BodyReservation, handle: () => unknown): Promise<unknown> {
  if (reservation.is_caller_done) throw new AppError('request_timeout')
  reservation.is_in_use = true
  try {
    return await handle()
  } finally {
    reservation.is_in_use = false
    if (reservation.is_caller_done) reservation.release()
  }
}
