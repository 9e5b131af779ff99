// Refuses requests without a Host header or with two: a proxy may have used the other one.
import type { FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'

/** Throws unless there is exactly one Host header. Node's parsed headers keep only the first. HTTP/1.0 needs none. */
export function checkHost({ raw: { rawHeaders, httpVersion } }: FastifyRequest): void {
  const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length
  if (hosts === 1 || (hosts === 0 && httpVersion !== '1.1')) return
  const message = hosts === 0 ? 'The header Host is missing.' : 'The header Host was sent twice.'
  throw new AppError('invalid_request', { message, param: 'Host' })
}
