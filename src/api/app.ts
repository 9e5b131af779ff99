// The API as a Fastify application: hooks and errors for all routes, the documentation, and the routes themselves.
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { serializerCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod'
import { createBodyReader } from '#core/bodies.ts'
import { statementsUnderWay, STATEMENTS_PER_CONNECTION } from '#core/pool.ts'
import { AppError } from '#core/errors.ts'
import { createListener, PROBE } from '#core/listener.ts'
import { originOfLinks } from '#core/startup.ts'
import { areaRoutes } from './areas.ts'
import type { Authenticate } from './auth.ts'
import { BODY_LIMIT_BYTES, parseBody } from './body.ts'
import type { ApiContext } from './context.ts'
import { docsRoutes } from './docs.ts'
import { guidesRoutes } from './guides/routes.ts'
import { checkHost } from './host.ts'
import { withFaultOfKey } from './idempotent.ts'
import { holdBodies } from './held-bodies.ts'
import { createKeyless } from './keyless.ts'
import { createLargeAnswers } from './large-answers.ts'
import { openapiRoutes } from './openapi/routes.ts'
import { checkPath, checkPlus, checkQuery, parseQuery } from './query.ts'
import { watchEventLoop } from './pressure.ts'
import { ROUTES } from './routes/index.ts'
import { createRefusals } from './refusals.ts'
import { validatorCompiler } from './validate.ts'

/** For the rate limit, this many bytes of a body or an answer count as one request. */
const BYTES_PER_REQUEST = 16 * 1024

/** Who calls, and who is told of it. */
export type ApiCallers = {
  authenticate: Authenticate
  /** Sees each request of `/v1` that was admitted and is valid, before it is handled; a refusal ends it. */
  before?: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** Hears of each operation. */
  onOperation?: (operation: { method: string; name: string }) => void
  /** The names of who calls, for the log line of a request; unset: the key. */
  callerOf?: (request: FastifyRequest) => Record<string, unknown>
  /** Sees it again when its answer is ready. */
  after?: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

/** Builds the API; the caller listens and closes. */
export async function buildApi(
  context: ApiContext,
  { authenticate, onOperation, before, callerOf = keyOf, after }: ApiCallers,
): Promise<FastifyInstance> {
  const { config, areas, sql, limit, log } = context
  const keyless = createKeyless()
  const large = createLargeAnswers()
  // A body that is refused or breaks off has cost what came of it.
  const readBody = createBodyReader((request, bytes) => {
    request.body_bytes = bytes
    charge(request, bytes)
  })
  const most_statements = config.DATABASE_POOL * STATEMENTS_PER_CONNECTION
  const pressure = watchEventLoop()
  // Where links lead.
  let origin = config.API_URL ?? ''
  const refusals = createRefusals(() => origin, log)
  const routes = { ...context, shown: refusals.shown }

  const app = createListener('api', {
    log,
    request_timeout_ms: config.REQUEST_TIMEOUT_MS,
    trusted_proxies: config.TRUSTED_PROXIES,
    logged_part: config.logged_part,
    about: (request) => ({ ...callerOf(request), ...about(request) }),
    bodyLimit: BODY_LIMIT_BYTES,
    answer_ms: 15_000,
    routerOptions: { querystringParser: parseQuery, ignoreTrailingSlash: false, maxParamLength: 500 },
    // A path that cannot be decoded needs a key too, so authenticate before refusing it.
    frameworkErrors: (error, request, reply) => {
      void admit(request, reply)
        .then(() => refusals.refuse(error, request, reply))
        .catch((refusal: unknown) => refusals.refuse(refusal, request, reply))
    },
    errorBody: refusals.errorBody,
  })
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    // A body is read only on routes that need a key.
    if (!needsKey(request)) return null
    const body = await readBody(request)
    hold(request, body.length)
    return parseBody(body, request.routeOptions.config.literal?.takes?.values)
  })
  app.addHook('onListen', (done) => {
    origin ||= originOfLinks(config.HOST, app.listeningOrigin)
    done()
  })
  const hold = holdBodies(app)
  app.decorateRequest('credentials')
  app.decorateRequest('body_bytes')
  app.decorateRequest('answer_room')
  app.decorateRequest('subject_id')

  // A large body or answer costs as much as many small ones.
  function charge({ credentials }: FastifyRequest, bytes: number): void {
    const extra = Math.floor(bytes / BYTES_PER_REQUEST)
    if (extra > 0) limit.charge(credentials, extra)
  }

  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff')
    // A caller who is gone has no address any more, and gets no answer.
    if (request.socket.remoteAddress === undefined) throw new AppError('request_timeout')
    if (!needsKey(request)) {
      keyless.countUnread(request, reply)
      if (request.routeOptions.url !== PROBE) keyless.limit(request, reply)
      checkHost(request)
      return checkPath(request.url)
    }
    reply.header('cache-control', 'no-store')
    try {
      checkHost(request)
      if (pressure.overloaded())
        throw new AppError('overloaded', { message: 'This process is too busy; nothing was accepted.' })
      if (statementsUnderWay(sql) > most_statements)
        throw new AppError('overloaded', {
          message: 'Too many statements wait for the database; nothing was accepted.',
        })
      request.credentials = await authenticate(request, reply)
    } catch (error) {
      keyless.countUnread(request, reply)
      throw error
    }
    const { scope, area } = request.routeOptions.config
    limit(request.credentials, reply)
    // `/v1/customers/` is not the customer without an id.
    if (Object.values(request.params ?? {}).includes('')) throw noSuchRoute(request)
    if (scope != null && !request.credentials.scopes.has(scope)) {
      throw new AppError('missing_scope', { message: `Missing scope: ${scope}`, context: { scope } })
    }
    if (area != null && !areas.deployed.includes(area)) {
      throw new AppError('misconfigured_gateway', {
        message: `The area "${area}" is not deployed here.`,
        context: { area },
      })
    }
    const channel = request.routeOptions.config.literal?.sends
    if (channel !== undefined && areas.channels_without_credentials.includes(channel)) {
      throw new AppError('misconfigured_gateway', {
        message: `No messages of the channel "${channel}" are sent here: whoever sends them is not configured.`,
        context: { area, channel },
      })
    }
    checkPath(request.url)
    checkQuery(request.url, request.query)
    checkPlus(request.url)
    const encoding = request.headers['content-encoding'] ?? 'identity'
    if (encoding !== 'identity' && request.method !== 'GET') {
      throw new AppError('unsupported_media_type', {
        message: `Bodies are taken uncompressed, not with Content-Encoding: ${encoding}.`,
      })
    }
  }

  app.addHook('onRequest', admit)
  app.addHook('onSend', (request, reply, payload, done) => {
    const bytes =
      typeof payload === 'string' || payload instanceof Uint8Array ? Buffer.byteLength(payload) : 0
    large.count(request, reply, bytes)
    if (isV1(request.routeOptions.url ?? '')) charge(request, bytes)
    else keyless.charge(request, bytes)
    done(null, payload)
  })
  app.addHook('onRoute', (added) => {
    if (added.config?.literal?.large === undefined) return
    added.preHandler = async (request, reply) => {
      await large.makeRoom(request)
      // Earlier answers may have used up the rate limit.
      limit(request.credentials, reply, 0)
    }
  })
  if (before !== undefined)
    app.addHook('preHandler', async (request, reply) => {
      if (needsKey(request)) await before(request, reply)
    })
  if (after !== undefined)
    app.addHook('onSend', async (request, reply) => {
      if (needsKey(request)) await after(request, reply)
    })
  app.addHook('onClose', () => pressure.close())
  app.setErrorHandler((error: FastifyError, request, reply) =>
    refusals.refuse(withFaultOfKey(error, request), request, reply),
  )
  app.setNotFoundHandler((request, reply) => refusals.refuse(noSuchRoute(request), request, reply))

  if (onOperation !== undefined)
    app.addHook('onRoute', ({ method, config: of }) => {
      const name = of?.literal?.operation_id
      if (name !== undefined && typeof method === 'string') onOperation({ method, name })
    })
  // Registered before the routes, because it collects them.
  openapiRoutes(app, config, () => origin)
  for (const add of ROUTES) add(app.withTypeProvider<ZodTypeProvider>(), routes)
  areaRoutes(app)

  app.get('/', (_request, reply) => reply.redirect('/docs'))
  guidesRoutes(app)
  docsRoutes(app)
  await app.ready()
  return app
}

// The router decodes paths and accepts absolute URLs, so the route that it found counts as well as the text of the URL.
function needsKey({ url, routeOptions }: FastifyRequest): boolean {
  return isV1(url) || isV1(routeOptions.url ?? '')
}

function noSuchRoute({ method, url }: FastifyRequest): AppError {
  const message = `There is no route ${method} ${url.split('?')[0]!.slice(0, 200)}.`
  return new AppError('route_not_found', { message })
}

function isV1(url: string): boolean {
  return /^\/v1(?:[/?]|$)/.test(url)
}

function keyOf({ credentials }: FastifyRequest): Record<string, unknown> {
  return { key_id: credentials?.key_id }
}

/** The tenant and the resource of a request, for its log line. */
function about({ credentials, params, subject_id }: FastifyRequest): Record<string, unknown> {
  const { id = subject_id } = (params ?? {}) as { id?: string }
  return { tenant_id: credentials?.tenant_id, subject_id: id }
}
