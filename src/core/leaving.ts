// Callers that disconnect before their answer: their waiting work is canceled.
import type { FastifyRequest } from 'fastify'
import { AppError } from './errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Called when the caller has disconnected, or was answered with a timeout. */
    disconnect_listeners?: Set<() => void>
  }
}

/**
 * Calls `disconnected` within half a second after the caller of a request has disconnected. Returns a function that
 * removes the listener.
 */
export function onDisconnect(request: FastifyRequest, disconnected: () => void): () => void {
  const listeners = (request.disconnect_listeners ??= new Set())
  listeners.add(disconnected)
  return () => void listeners.delete(disconnected)
}

/** Runs `work` with a signal that aborts with `request_timeout` when the caller disconnects. */
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
