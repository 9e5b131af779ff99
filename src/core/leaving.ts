// Callers who leave before their answer: what they asked for and still waits is dropped.
import type { FastifyRequest } from 'fastify'
import { AppError } from './errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What is called when its caller has left, or was answered that it takes too long. */
    on_left?: Set<() => void>
  }
}

/** Calls `left` within half a second of when the caller of a request has left. Returns what stops that. */
export function onLeft(request: FastifyRequest, left: () => void): () => void {
  const all = (request.on_left ??= new Set())
  all.add(left)
  return () => void all.delete(left)
}

/** Does `work` with a signal that aborts with `request_timeout` when the caller of the request has left. */
export async function whileThere<T>(
  request: FastifyRequest,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const left = () => controller.abort(new AppError('request_timeout'))
  if (request.socket.destroyed) left()
  const stop = onLeft(request, left)
  try {
    return await work(controller.signal)
  } finally {
    stop()
  }
}
