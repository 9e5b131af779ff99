// The API as a Fastify application: hooks and errors for all routes, the documentation, and the routes themselves.
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { createListener } from '#core/listener.ts'
import { createAuthenticate, createLimit } from './auth.ts'
import { BODY_LIMIT_BYTES, parseBody } from './body.ts'
import type { ApiContext } from './context.ts'
import { customerRoutes } from './customers.ts'
import { docsRoutes } from './docs.ts'
import { guidesRoutes } from './guides/routes.ts'
import { idempotencyKeyRoutes } from './idempotency-keys.ts'
import { openapiRoutes } from './openapi/routes.ts'
import { paymentRoutes } from './payments/routes.ts'
import { checkQuery, parseQuery } from './query.ts'
import { watchEventLoop } from './pressure.ts'
import { reconciliationRoutes } from './reconciliation.ts'
import { refundRoutes } from './refunds.ts'
import { createRefusals } from './refusals.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/
const FAILED_AUTH_RPS = 10
const FAILED_AUTH_BURST = 200

/** Builds the API; the caller listens and closes. */
export async function buildApi(context: ApiContext): Promise<FastifyInstance> {
  const { config, sql, log } = context
  const authenticate = createAuthenticate(sql, log)
  const limit = createLimit({ rps: config.RATE_LIMIT_RPS, burst: config.RATE_LIMIT_BURST })
  const pressure = watchEventLoop()
  const refusals = createRefusals(config, log)
  const limitFailures = createLimit({ rps: FAILED_AUTH_RPS, burst: FAILED_AUTH_BURST })

  const app = createListener('api', {
    log,
    request_timeout_ms: config.REQUEST_TIMEOUT_MS,
    bodyLimit: BODY_LIMIT_BYTES,
    handlerTimeout: 15_000,
    genReqId: (request) => {
      const given = request.headers['x-request-id']
      return typeof given === 'string' && REQUEST_ID.test(given) ? given : newId()
    },
    routerOptions: { querystringParser: parseQuery, ignoreTrailingSlash: false, maxParamLength: 500 },
    // A path that cannot be decoded is still a path under /v1 for who has no key.
    frameworkErrors: (error, request, reply) => {
      void admit(request, reply)
        .then(() => refusals.refuse(error, request, reply))
        .catch((refusal: unknown) => refusals.refuse(refusal, request, reply))
    },
    errorBody: refusals.errorBody,
  })
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      done(null, parseBody(body as Buffer))
    } catch (error) {
      done(error as Error)
    }
  })
  app.decorateRequest('credentials')

  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff')
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1')
      throw new AppError('invalid_request', { message: 'The header Host is missing.', param: 'Host' })
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
  app.setErrorHandler((error: FastifyError, request, reply) => refusals.refuse(error, request, reply))
  app.setNotFoundHandler((request, reply) =>
    refusals.refuse(
      new AppError('route_not_found', {
        message: `There is no route ${request.method} ${request.url.split('?')[0]}.`,
      }),
      request,
      reply,
    ),
  )

  // Before the routes that it describes.
  openapiRoutes(app, config)
  customerRoutes(app, context)
  paymentRoutes(app, context)
  refundRoutes(app, context)
  reconciliationRoutes(app, context)
  idempotencyKeyRoutes(app, context)

  app.get('/healthz', () => ({ status: 'ok' }))
  app.get('/', (_request, reply) => reply.redirect('/docs'))
  guidesRoutes(app)
  docsRoutes(app)
  await app.ready()
  return app
}

function isV1(url: string): boolean {
  return /^\/v1(?:[/?]|$)/.test(url)
}
