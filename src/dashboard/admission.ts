// Checks every request to the dashboard, and sets the security headers of every response.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext } from '#api/context.ts'
import { createLimit } from '#api/limit.ts'
import { checkPath } from '#api/query.ts'
import { AppError } from '#core/errors.ts'
import { networkOf } from '#core/network.ts'
import { refuseIfOverloaded } from '#core/process-pool.ts'
import { createGuard } from './guard.ts'

/** Rate limit of each client network, on the dashboard's own routes. */
const LIMIT = { rps: 50, burst: 500 }

/** Security headers of every response. Pages replace the content security policy. */
const HEADERS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=()',
}
/** Makes browsers use https only. Sent if DASHBOARD_URL is https. */
const HSTS = { 'strict-transport-security': 'max-age=31536000' }
/** Path prefix of the API's routes. The API has its own limits. */
export const V1_PREFIX = '/api/v1/'
const LIMITED_PATHS = /^\/(?:api|ops\/bull-board)(?:\/|$)/
/**
 * Matches paths that are not canonical: an absolute URL, an empty or dot segment, or a needlessly encoded character.
 */
const NOT_CANONICAL = /^[^/]|\/\/|\/\.\.?(?:\/|$)|%(?:2[de]|3\d|[46][1-9a-f]|[57][\da]|5f|7e)/i

/** Sets the headers. Throws `AppError` if the request is refused. */
export type PageAdmission = (request: FastifyRequest, reply: FastifyReply) => void

export function createPageAdmission({ config, sql }: ApiContext): PageAdmission {
  const guard = createGuard(config)
  const headers = { ...HEADERS, ...(config.DASHBOARD_URL?.startsWith('https:') && HSTS) }
  const limit = createLimit(LIMIT)
  return (request, reply) => {
    // Set on the raw response, because the API and bull-board write their own responses.
    for (const [name, value] of Object.entries(headers)) reply.raw.setHeader(name, value)
    const [path] = request.url.split('?', 1) as [string]
    // The router decodes paths and accepts absolute URLs, so both the raw path and the matched route are checked.
    if ([path, request.routeOptions.url ?? ''].some((each) => LIMITED_PATHS.test(each))) {
      reply.header('cache-control', 'no-store')
      if (!path.startsWith(V1_PREFIX)) {
        limit(networkOf(request.ip), reply)
        refuseIfOverloaded(sql, config)
      }
    }
    guard(request)
    if (NOT_CANONICAL.test(path)) throw new AppError('route_not_found')
    checkPath(request.url)
  }
}
