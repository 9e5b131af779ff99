// Refuses requests without a Host header. Also refuses several Host headers: a proxy may have used another one.
import type { FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'

/**
 * Throws unless there is exactly one Host header; HTTP/1.0 needs none. Node's parsed headers contain only the first.
 */
export function checkHost({ raw: { rawHeaders, httpVersion } }: FastifyRequest): void {
  const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length
  if (hosts === 1 || (hosts === 0 && httpVersion !== '1.1')) return
  const message = hosts === 0 ? 'The header Host is missing.' : 'The header Host was sent twice.'
  throw new AppError('invalid_request', { message, param: 'Host' })
}
