// Admits requests: `admit` makes all checks that precede the reading of the body.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import { HEALTH_PATH } from '#core/health.ts'
import { refuseIfOverloaded } from '#core/process-pool.ts'
import type { AreaStates } from '#domain/areas.ts'
import type { Authenticate } from './auth.ts'
import type { ApiContext } from './context.ts'
import { checkHost } from './host.ts'
import type { KeylessLimits } from './keyless.ts'
import { watchEventLoop } from './pressure.ts'
import { checkPath, checkPlus, checkQuery } from './query.ts'

export type Admission = {
  /** Throws the error of the first failed check. Sets the credentials of the request if its route needs a key. */
  admit: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  close: () => void
}

export function createAdmission(
  { config, areas, sql, database, limit }: ApiContext,
  authenticate: Authenticate,
  keyless: KeylessLimits,
): Admission {
  const pressure = watchEventLoop()

  function checkLoad(): void {
    if (pressure.overloaded())
      throw new AppError('overloaded', {
        limited_by: 'event_loop',
        message: 'This process is too busy. Nothing was accepted: retry later.',
      })
    refuseIfOverloaded(sql, config)
    database.assertCurrent()
  }

  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff')
    // A disconnected caller has no address and gets no answer.
    if (request.socket.remoteAddress === undefined) throw new AppError('request_timeout')
    if (!needsKey(request)) {
      keyless.countUnread(request, reply)
      if (request.routeOptions.url !== HEALTH_PATH) keyless.limit(request, reply)
      checkHost(request)
      return checkPath(request.url)
    }
    reply.header('cache-control', 'no-store')
    try {
      checkHost(request)
      checkLoad()
      request.credentials = await authenticate(request, reply)
    } catch (error) {
      keyless.countUnread(request, reply)
      throw error
    }
    limit(request.credentials, reply)
    // `/v1/customers/` has no id: the route does not exist.
    if (Object.values(request.params ?? {}).includes('')) throw noSuchRoute(request)
    checkScope(request)
    checkArea(request, areas)
    checkPath(request.url)
    checkQuery(request.url, request.query)
    checkPlus(request.url)
    checkEncoding(request)
  }

  return { admit, close: () => pressure.close() }
}

/**
 * Whether a request needs a key. The router decodes paths and accepts absolute URLs, so both the URL and the matched
 * route count.
 */
export function needsKey({ url, routeOptions }: FastifyRequest): boolean {
  return isV1(url) || isV1(routeOptions.url ?? '')
}

export function isV1(url: string): boolean {
  return /^\/v1(?:[/?]|$)/.test(url)
}

export function noSuchRoute({ method, url }: FastifyRequest): AppError {
  const message = `There is no route ${method} ${url.split('?')[0]!.slice(0, 200)}.`
  return new AppError('route_not_found', { message })
}

function checkScope({ credentials, routeOptions }: FastifyRequest): void {
  const { scope } = routeOptions.config
  if (scope == null || credentials.scopes.has(scope)) return
  throw new AppError('missing_scope', { message: `Missing scope: ${scope}`, context: { scope } })
}

/**
 * Throws if the area of the route is not deployed, or if its channel has no credentials. A tenant in test mode needs
 * none: its sandbox takes the place of the providers.
 */
function checkArea({ credentials: { livemode }, routeOptions }: FastifyRequest, areas: AreaStates): void {
  const { area, definition } = routeOptions.config
  const is_deployed =
    area == null || areas.deployed.includes(area) || (!livemode && areas.without_credentials.includes(area))
  if (!is_deployed)
    throw new AppError('misconfigured_gateway', {
      message: `The area "${area}" is not deployed here.`,
      context: { area },
    })
  const channel = definition?.sends
  if (livemode && channel !== undefined && areas.channels_without_credentials.includes(channel))
    throw new AppError('misconfigured_gateway', {
      message: `This installation sends no messages of the channel "${channel}": its provider is not configured.`,
      context: { area, channel },
    })
}

function checkEncoding({ headers, method }: FastifyRequest): void {
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding === 'identity' || method === 'GET') return
  throw new AppError('unsupported_media_type', {
    message: `Bodies must be uncompressed: Content-Encoding ${encoding} is not supported.`,
  })
}
