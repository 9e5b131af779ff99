// The checks that every request to the dashboard passes first, and the headers of every answer.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext } from '#api/context.ts'
import { createLimit } from '#api/limit.ts'
import { checkPath } from '#api/query.ts'
import { AppError } from '#core/errors.ts'
import { networkOf } from '#core/network.ts'
import { countPendingStatements, STATEMENTS_PER_CONNECTION } from '#core/pool.ts'
import { createGuard } from './guard.ts'

/** For each address, on the dashboard's own routes. */
const LIMIT = { rps: 50, burst: 500 }

/** The headers of every answer. The page has another policy. */
const HEADERS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=()',
}
/** For pages under https: browsers request them over https only. */
const HSTS = { 'strict-transport-security': 'max-age=31536000' }
/** The routes of the API, which has its own limits. */
export const V1_PREFIX = '/api/v1/'
const LIMITED_PATHS = /^\/(?:api|ops\/bull-board)(?:\/|$)/
/** A path in another form: a whole address, an empty or dotted part, or a character encoded without need. */
const NOT_CANONICAL = /^[^/]|\/\/|\/\.\.?(?:\/|$)|%(?:2[de]|3\d|[46][1-9a-f]|[57][\da]|5f|7e)/i

/** Throws unless the request is admitted. */
export type PageAdmission = (request: FastifyRequest, reply: FastifyReply) => void

export function createPageAdmission({ config, sql }: ApiContext): PageAdmission {
  const guard = createGuard(config)
  const headers = { ...HEADERS, ...(config.DASHBOARD_URL?.startsWith('https:') && HSTS) }
  const limit = createLimit(LIMIT)
  return (request, reply) => {
    // On the raw answer: other packages write some answers themselves.
    for (const [name, value] of Object.entries(headers)) reply.raw.setHeader(name, value)
    const [path] = request.url.split('?', 1) as [string]
    // The router decodes paths and accepts whole addresses, so both the text and the route that it found are checked.
    if ([path, request.routeOptions.url ?? ''].some((each) => LIMITED_PATHS.test(each))) {
      reply.header('cache-control', 'no-store')
      if (!path.startsWith(V1_PREFIX)) {
        limit(networkOf(request.ip), reply)
        if (countPendingStatements(sql) > config.DATABASE_POOL * STATEMENTS_PER_CONNECTION)
          throw new AppError('overloaded', { message: 'Too many statements wait for the database.' })
      }
    }
    guard(request)
    if (NOT_CANONICAL.test(path)) throw new AppError('route_not_found')
    checkPath(request.url)
  }
}
