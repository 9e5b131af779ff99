// Callers who leave before their answer: what they asked for and still waits is dropped.
import type { FastifyRequest } from 'fastify'
import { AppError } from './errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What is called when its caller has left, or was answered that it takes too long. */
    disconnect_listeners?: Set<() => void>
  }
}

/** Calls `disconnected` within half a second of when the caller of a request has left. Returns what stops that. */
export function onDisconnect(request: FastifyRequest, disconnected: () => void): () => void {
  const listeners = (request.disconnect_listeners ??= new Set())
  listeners.add(disconnected)
  return () => void listeners.delete(disconnected)
}

/** Does `work` with a signal that aborts with `request_timeout` when the caller of the request has left. */
export async function whileConnected<T>(
  request: FastifyRequest,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const disconnected = () => controller.abort(new AppError('request_timeout'))
  if (request.socket.destroyed) disconnected()
  const stop = onDisconnect(request, disconnected)
  try {
    return await work(controller.signal)
  } finally {
    stop()
  }
}
