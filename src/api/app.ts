// The API as a Fastify application: hooks and errors for all routes, the documentation, and the routes themselves.
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { serializerCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod'
import { createBodyReader } from '#core/bodies.ts'
import { createListener } from '#core/listener.ts'
import { originOfLinks } from '#core/startup.ts'
import { traceRequests } from '#core/trace-requests.ts'
import { RESOURCE_NAMES, resourceOf } from '#domain/resources.ts'
import { createAdmission, isV1, needsKey, noSuchRoute } from './admit.ts'
import { areaRoutes } from './areas.ts'
import type { Authenticate } from './auth.ts'
import { BODY_LIMIT_BYTES, parseBody } from './body.ts'
import type { ApiContext } from './context.ts'
import { docsRoutes } from './docs.ts'
import { guidesRoutes } from './guides/routes.ts'
import { withKeyProblem } from './idempotent.ts'
import { limitBodyMemory } from './body-memory.ts'
import { createKeylessLimits, type KeylessLimits } from './keyless.ts'
import { createLargeAnswers } from './large-answers.ts'
import type { CallerLimit } from './limit.ts'
import { addLivemode } from './livemode.ts'
import { openapiRoutes } from './openapi/routes.ts'
import { parseQuery } from './query.ts'
import { ROUTES } from './routes/index.ts'
import { createRefusals } from './refusals.ts'
import { validatorCompiler } from './validate.ts'

/** In the rate limit, every full 16 KiB of a body or an answer counts as one more request. */
const BYTES_PER_REQUEST = 16 * 1024

/** How callers are authenticated, and hooks for their requests. */
export type CallerHooks = {
  authenticate: Authenticate
  /** Runs before the handler of each admitted and valid request to `/v1`. A thrown error ends the request. */
  before?: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  /** Called for each operation when its route is added. */
  onOperation?: (operation: { method: string; name: string }) => void
  /** The caller's fields in the log line of a request. Default: the id of the key. */
  callerOf?: (request: FastifyRequest) => Record<string, unknown>
  /** Runs when the answer of an admitted request to `/v1` is ready. */
  after?: (request: FastifyRequest, reply: FastifyReply) => Promise<void>
}

/** Builds the API; the caller starts and closes it. */
export async function buildApi(context: ApiContext, hooks: CallerHooks): Promise<FastifyInstance> {
  const { authenticate, callerOf = keyOf } = hooks
  const { config, database, limit, log } = context
  const keyless = createKeylessLimits()
  // A refused or incomplete body is charged for the bytes that arrived.
  const readBody = createBodyReader((request, bytes) => {
    request.body_bytes = bytes
    charge(request, bytes)
  })
  const { admit, close } = createAdmission(context, authenticate, keyless)
  // The origin of links in answers.
  let origin = config.API_URL ?? ''
  const refusals = createRefusals(() => origin, log)
  const routes = { ...context, itemError: refusals.itemError }

  const app = createListener('api', {
    log,
    request_timeout_ms: config.REQUEST_TIMEOUT_MS,
    trusted_proxies: config.TRUSTED_PROXIES,
    log_sample_rate: config.log_sample_rate,
    about: (request) => ({ ...callerOf(request), ...requestFields(request) }),
    // A refused test must use up no error budget.
    isMeasured: ({ credentials }) => credentials?.livemode ?? true,
    bodyLimit: BODY_LIMIT_BYTES,
    response_timeout_ms: 15_000,
    routerOptions: { querystringParser: parseQuery, ignoreTrailingSlash: false, maxParamLength: 500 },
    // A path that cannot be decoded also needs a key: authenticate before refusing it.
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
    reserveMemory(request, body.length)
    return parseBody(body, request.routeOptions.config.definition?.body_limits?.values)
  })
  app.addHook('onListen', (done) => {
    origin ||= originOfLinks(config.HOST, app.listeningOrigin)
    done()
  })
  const reserveMemory = limitBodyMemory(app)
  app.decorateRequest('credentials')
  app.decorateRequest('body_bytes')
  app.decorateRequest('answer_reservation')
  app.decorateRequest('resource_id')

  function charge({ credentials }: FastifyRequest, bytes: number): void {
    const extra = Math.floor(bytes / BYTES_PER_REQUEST)
    if (extra > 0) limit.charge(credentials, extra)
  }

  app.addHook('onRequest', admit)
  trackRequests(app, database, hooks)
  traceRequests(app, config, ({ credentials }) => credentials?.tenant_id)
  chargeAnswers(app, limit, keyless, charge)
  if (hooks.onOperation !== undefined) reportOperations(app, hooks.onOperation)
  app.addHook('onClose', close)
  app.setErrorHandler((error: FastifyError, request, reply) =>
    refusals.refuse(withKeyProblem(error, request), request, reply),
  )
  app.setNotFoundHandler((request, reply) => refusals.refuse(noSuchRoute(request), request, reply))

  // Both are registered before the other routes: one extends their answers, and the other collects them.
  addLivemode(app)
  openapiRoutes(app, config, () => origin)
  for (const add of ROUTES) add(app.withTypeProvider<ZodTypeProvider>(), routes)
  areaRoutes(app)

  app.get('/', (_request, reply) => reply.redirect('/docs'))
  guidesRoutes(app)
  docsRoutes(app)
  await app.ready()
  return app
}

/** Charges each answer by its size, and reserves memory for answers that may be large. */
function chargeAnswers(
  app: FastifyInstance,
  limit: CallerLimit,
  keyless: KeylessLimits,
  charge: (request: FastifyRequest, bytes: number) => void,
): void {
  const large = createLargeAnswers()
  app.addHook('onSend', (request, reply, payload, done) => {
    const bytes =
      typeof payload === 'string' || payload instanceof Uint8Array ? Buffer.byteLength(payload) : 0
    large.count(request, reply, bytes)
    if (isV1(request.routeOptions.url ?? '')) charge(request, bytes)
    else keyless.charge(request, bytes)
    done(null, payload)
  })
  app.addHook('onRoute', (added) => {
    if (added.config?.definition?.large === undefined) return
    added.preHandler = async (request, reply) => {
      await large.reserve(request)
      // Earlier answers may have exhausted the rate limit while this request waited.
      limit(request.credentials, reply, 0)
    }
  })
}

/** Counts each request to `/v1` until it can write no more, also if it was answered before, and calls its hooks. */
function trackRequests(
  app: FastifyInstance,
  database: ApiContext['database'],
  { before, after }: CallerHooks,
): void {
  app.addHook('onRoute', (added) => {
    if (!isV1(added.url)) return
    const { handler } = added
    added.handler = async function (request, reply) {
      // The database may have been sealed while the body arrived.
      return await database.whileCurrent(async () => {
        await before?.(request, reply)
        return await handler.call(this, request, reply)
      })
    }
  })
  if (after !== undefined)
    app.addHook('onSend', async (request, reply) => {
      if (needsKey(request)) await database.track(async () => await after(request, reply))
    })
}

function reportOperations(app: FastifyInstance, onOperation: NonNullable<CallerHooks['onOperation']>): void {
  app.addHook('onRoute', ({ method, config: of }) => {
    const name = of?.definition?.operation_id
    if (name !== undefined && typeof method === 'string') onOperation({ method, name })
  })
}

function keyOf({ credentials }: FastifyRequest): Record<string, unknown> {
  return { key_id: credentials?.key_id }
}

/** The names of ids in the log lines of jobs, such as `payment_id`, by the path of the resource. */
const ID_NAMES = new Map(RESOURCE_NAMES.map((name) => [resourceOf(name).table, `${name}_id`]))

/** The tenant and the resource of a request, for its log line. */
function requestFields(request: FastifyRequest): Record<string, unknown> {
  const { credentials, params, resource_id, routeOptions } = request
  const { id = resource_id } = (params ?? {}) as { id?: string }
  const [, path] = /\/v1\/([a-z_]+)/.exec(routeOptions.url ?? '') ?? []
  const id_name = path === undefined ? undefined : ID_NAMES.get(path)
  const fields = { tenant_id: credentials?.tenant_id, resource_id: id }
  return id_name === undefined ? fields : { ...fields, [id_name]: id }
}
