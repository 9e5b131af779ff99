// The API as a Fastify application: hooks and errors for all routes, the documentation, and the routes themselves.
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import helmet from '@fastify/helmet'
import swagger from '@fastify/swagger'
import scalar from '@scalar/fastify-api-reference'
import Fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import {
  hasZodFastifySchemaValidationErrors,
  jsonSchemaTransform,
  jsonSchemaTransformObject,
  serializerCompiler,
  validatorCompiler,
} from 'fastify-type-provider-zod'
import { isUnavailable } from '#core/db.ts'
import { AppError, ERRORS, type ErrorCode } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { metrics } from '#core/metrics.ts'
import { createAuthenticate, createLimit } from './auth.ts'
import { BODY_LIMIT_BYTES, parseBody } from './body.ts'
import type { ApiContext } from './context.ts'
import { customerRoutes } from './customers.ts'
import { idempotencyKeyRoutes } from './idempotency-keys.ts'
import { openapi } from './openapi.ts'
import { paymentRoutes } from './payments.ts'
import { checkQuery, parseQuery } from './query.ts'
import { watchEventLoop } from './pressure.ts'
import { refundRoutes } from './refunds.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/
const FAILED_AUTH_RPS = 10
const FAILED_AUTH_BURST = 200

/** Builds the API; the caller listens and closes. */
export async function buildApi(context: ApiContext): Promise<FastifyInstance> {
  const { config, sql, log } = context
  const authenticate = createAuthenticate(sql, log)
  const limit = createLimit({ rps: config.RATE_LIMIT_RPS, burst: config.RATE_LIMIT_BURST })
  const pressure = watchEventLoop()
  const limitFailures = createLimit({ rps: FAILED_AUTH_RPS, burst: FAILED_AUTH_BURST })

  // Fastify's types follow the logger's; the routes are written for its base.
  const loggerInstance: FastifyBaseLogger = log
  const app = Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT_BYTES,
    return503OnClosing: false,
    requestTimeout: config.REQUEST_TIMEOUT_MS,
    http: {
      headersTimeout: config.REQUEST_TIMEOUT_MS / 2,
      connectionsCheckingInterval: config.REQUEST_TIMEOUT_MS / 6,
    },
    handlerTimeout: 15_000,
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    genReqId: (request) => {
      const given = request.headers['x-request-id']
      return typeof given === 'string' && REQUEST_ID.test(given) ? given : newId()
    },
    routerOptions: { querystringParser: parseQuery, ignoreTrailingSlash: false, maxParamLength: 500 },
    // A path that cannot be decoded is still a path under /v1 for who has no key.
    frameworkErrors: (error, request, reply) => {
      void admit(request, reply)
        .then(() => refuse(error, request, reply))
        .catch((refusal: unknown) => refuse(refusal, request, reply))
    },
    clientErrorHandler: (error, socket) => refuseUnreadable(error, socket),
  })
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      done(null, parseBody(body as Buffer))
    } catch (error) {
      done(error as Error)
    }
  })
  app.decorateRequest('credentials')

  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    reply.header('x-request-id', request.id)
    const {
      url,
      config: { scope, area },
    } = request.routeOptions
    // The router decodes paths and takes whole URLs: what it found counts as much as what was written.
    if (!isV1(request.url) && !isV1(url ?? '')) return
    if (pressure.overloaded()) throw new AppError('overloaded')
    try {
      request.credentials = await authenticate(request)
    } catch (error) {
      if (error instanceof AppError) limitFailures(request.ip, reply)
      throw error
    }
    limit(request.credentials.key_id, reply)
    if (area != null && !config.areas.has(area)) {
      throw new AppError('misconfigured_gateway', {
        message: `The area "${area}" is not deployed here.`,
        context: { area },
      })
    }
    if (scope != null && !request.credentials.scopes.has(scope)) {
      throw new AppError('missing_scope', { message: `Missing scope: ${scope}`, context: { scope } })
    }
    checkQuery(request.url, request.query)
    const encoding = request.headers['content-encoding'] ?? 'identity'
    if (encoding !== 'identity' && request.method !== 'GET') {
      throw new AppError('unsupported_media_type', {
        message: `Bodies are taken uncompressed, not with Content-Encoding: ${encoding}.`,
      })
    }
  }

  app.addHook('onRequest', admit)
  app.addHook('onClose', () => pressure.close())
  // An answer of the last moments ends its connection: one kept open would be waited for.
  let closing = false
  app.addHook('preClose', (done) => {
    closing = true
    done()
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (closing) reply.header('connection', 'close')
    done(null, payload)
  })
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? 'none'
    metrics.request.observe(
      { listener: 'api', method: request.method, route, status: reply.statusCode },
      reply.elapsedTime / 1000,
    )
    log.debug(
      {
        request_id: request.id,
        method: request.method,
        route,
        status: reply.statusCode,
        ms: reply.elapsedTime,
        tenant_id: request.credentials?.tenant_id,
      },
      'answered',
    )
    done()
  })
  app.setErrorHandler((error: FastifyError, request, reply) => refuse(error, request, reply))
  app.setNotFoundHandler((request, reply) =>
    refuse(
      new AppError('route_not_found', {
        message: `There is no route ${request.method} ${request.url.split('?')[0]}.`,
      }),
      request,
      reply,
    ),
  )

  await app.register(swagger, {
    openapi: openapi(config),
    transform: jsonSchemaTransform,
    transformObject: jsonSchemaTransformObject,
  })

  customerRoutes(app, context)
  paymentRoutes(app, context)
  refundRoutes(app, context)
  idempotencyKeyRoutes(app, context)

  app.get('/healthz', { schema: { hide: true } }, () => ({ status: 'ok' }))
  app.get('/openapi.json', { schema: { hide: true } }, () => app.swagger())
  app.get('/', { schema: { hide: true } }, (_request, reply) => reply.redirect('/docs'))
  // Pages want all of helmet's headers; what answers JSON only needs to be taken for nothing else.
  await app.register(async (pages) => {
    await pages.register(helmet, { contentSecurityPolicy: false })
    await pages.register(scalar, {
      routePrefix: '/docs',
      configuration: { title: 'Sluice API', url: '/openapi.json', telemetry: false, withDefaultFonts: false },
    })
  })
  await app.ready()
  return app

  function refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const refusal = asAppError(error)
    const { code, message, param, details, context, retry_after_s, status } = refusal
    if (status >= 500)
      log.error(
        { err: error, request_id: request.id, code, route: request.routeOptions?.url },
        'a request failed',
      )
    if (retry_after_s !== undefined || status === 503) reply.header('retry-after', retry_after_s ?? 1)
    if (status === 401) reply.header('www-authenticate', 'Bearer')
    const shown = status === 500 && code === 'internal_error' ? refusal : { message, param, details, context }
    return reply
      .code(status)
      .header('x-request-id', request.id)
      .type('application/json; charset=utf-8')
      .serializer(JSON.stringify)
      .send(bodyOf(code, shown, request.id))
  }

  // What is not HTTP never reaches a route; Node's own answer would be bare.
  function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET' || !socket.writable) return
    const code = UNREADABLE[error.code ?? ''] ?? 'invalid_request'
    const [status, standard] = ERRORS[code]
    const message = code === 'invalid_request' ? 'The request could not be read.' : standard
    const request_id = newId()
    const body = JSON.stringify(bodyOf(code, { message }, request_id))
    const head = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'content-type: application/json; charset=utf-8',
      `content-length: ${Buffer.byteLength(body)}`,
      `x-request-id: ${request_id}`,
      'connection: close',
    ]
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  }

  function bodyOf(
    code: ErrorCode,
    { message, param, details, context: facts }: Partial<AppError>,
    request_id: string,
  ): { error: unknown } {
    const doc_url = `${config.API_URL ?? ''}/docs#errors-${code}`
    return { error: { code, message, param, details, context: facts, request_id, doc_url } }
  }
}

const UNREADABLE: Record<string, ErrorCode> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
}

function isV1(url: string): boolean {
  return /^\/v1(?:[/?]|$)/.test(url)
}

/** The one place where errors of the API become rows of the catalogue. */
function asAppError(error: unknown): AppError {
  if (error instanceof AppError) return error
  if (hasZodFastifySchemaValidationErrors(error)) return invalid(error)
  const { code, statusCode } = error as Partial<FastifyError>
  if (isUnavailable(error) || code === 'FST_ERR_HANDLER_TIMEOUT')
    return new AppError('database_unavailable', { cause: error })
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return new AppError('payload_too_large', { message: `The body is above ${BODY_LIMIT_BYTES} bytes.` })
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return new AppError('unsupported_media_type')
  if (
    code === 'FST_ERR_BAD_URL' ||
    (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500)
  ) {
    return new AppError('invalid_request', { message: (error as Error).message })
  }
  return new AppError('internal_error', { cause: error })
}

function invalid(error: FastifyError): AppError {
  const details = (error.validation ?? []).flatMap(({ instancePath, keyword, message, params }) => {
    const path = instancePath.split('/').slice(1).join('.')
    const about = (name: string) => [path, name].filter(Boolean).join('.')
    if (keyword === 'unrecognized_keys')
      return (params.keys as string[]).map((key) => ({ param: about(key), message: 'is not known' }))
    return [{ param: path || error.validationContext || 'body', message: message ?? 'is invalid' }]
  })
  const first = details[0]
  return new AppError('invalid_request', {
    message: first && `${first.param}: ${first.message}`,
    param: first?.param,
    details,
  })
}
