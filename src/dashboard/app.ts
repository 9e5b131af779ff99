// The dashboard as a Fastify application: request checks, sign-in, the API under /api/v1, its own routes and the pages.
import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify'
import { serializerCompiler } from 'fastify-type-provider-zod'
import { parseBody } from '#api/body.ts'
import type { ApiContext } from '#api/context.ts'
import { endWaits } from '#api/open.ts'
import { checkPlus, checkQuery, parseQuery } from '#api/query.ts'
import { createRefusals } from '#api/refusals.ts'
import { validatorCompiler } from '#api/validate.ts'
import { createBodyReader } from '#core/bodies.ts'
import { AppError } from '#core/errors.ts'
import { HEALTH_PATH } from '#core/health.ts'
import { createListener } from '#core/listener.ts'
import { createPageAdmission, V1_PREFIX } from './admission.ts'
import type { DashboardContext } from './context.ts'
import { isMutating } from './guard.ts'
import { recordOutcome } from './on-record.ts'
import { pageRoutes } from './pages.ts'
import { DASHBOARD_ROUTES } from './routes/index.ts'
import { AUTH_PATH } from './sessions.ts'
import { createSessionLookup } from './signed-in.ts'
import { createTenantGate } from './tenant-gate.ts'
import { buildApiForSessions } from './v1.ts'

const BODY_LIMIT_BYTES = 64 * 1024
/** What operators need in order to release a switch. It is also served while the server is not checked. */
const UNCHECKED_PATHS = ['sign-in/', 'two-factor/verify-', 'passkey/verify-authentication']
  .map((path) => `${AUTH_PATH}/${path}`)
  .concat('/api/ops/switches/')

type DashboardServices = Pick<
  DashboardContext,
  'sessions' | 'operatorSql' | 'sandbox' | 'emulators' | 'version'
>

/** Builds the dashboard. The caller starts and closes it. */
export async function buildDashboard(api: ApiContext, services: DashboardServices): Promise<FastifyInstance> {
  const { config, log } = api
  const refusals = createRefusals(() => config.API_URL ?? '', log)
  const admit = createPageAdmission(api)
  const sessionLookup = createSessionLookup(api, services.sessions)
  const gate = createTenantGate(api, sessionLookup.requireSession)
  const { app: v1, operations } = await buildApiForSessions(api, gate)
  const app = createListener('dashboard', {
    log,
    request_timeout_ms: config.REQUEST_TIMEOUT_MS,
    trusted_proxies: config.TRUSTED_PROXIES,
    log_sample_rate: config.log_sample_rate,
    about: ({ signed_in }) => ({ user_id: signed_in?.user_id, tenant_id: signed_in?.tenant?.id }),
    bodyLimit: BODY_LIMIT_BYTES,
    response_timeout_ms: 15_000,
    errorBody: refusals.errorBody,
    routerOptions: { querystringParser: parseQuery },
    frameworkErrors: (error, request, reply) => {
      try {
        admit(request, reply)
        throw error
      } catch (refusal) {
        refusals.refuse(refusal, request, reply)
      }
    },
  })
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  const readBody = createBodyReader()
  app.addContentTypeParser('application/json', async (request: FastifyRequest) =>
    request.is404 ? null : parseBody(await readBody(request)),
  )
  app.decorateRequest('signed_in')
  app.decorateRequest('set_cookies')
  app.decorateRequest('open_audit_entry')
  app.decorateRequest('sql')
  app.decorateRequest('is_forwarded')

  app.addHook('onRequest', async (request, reply) => {
    // Health probes may use any host name, so they skip the checks.
    if (request.routeOptions.url === HEALTH_PATH) return
    admit(request, reply)
    const { url } = request
    if (url.startsWith(V1_PREFIX)) {
      request.is_forwarded = true
      reply.hijack()
      request.raw.url = url.slice('/api'.length)
      v1.routing(request.raw, reply.raw)
      return
    }
    checkQuery(url, request.query)
    // Only API queries must be canonical. In addresses of pages, browsers may write a space as +.
    if (url.startsWith('/api/')) checkPlus(url)
  })
  app.addHook('onRoute', (added) => {
    if (![added.method].flat().some((method) => isMutating({ method }))) return
    const { handler, url } = added
    const is_served_unchecked = UNCHECKED_PATHS.some((path) => url.startsWith(path))
    added.handler = async function (request, reply) {
      const handle = async () => await handler.call(this, request, reply)
      return await (is_served_unchecked
        ? api.database.unlessMoved(handle)
        : api.database.whileCurrent(handle))
    }
  })
  app.addHook(
    'onSend',
    async (request, reply) => await api.database.track(() => recordOutcome(api, request, reply)),
  )
  app.addHook('preClose', async () => {
    endWaits(api)
    await v1.close()
  })
  app.setErrorHandler((error: FastifyError, request, reply) => refusals.refuse(error, request, reply))
  app.setNotFoundHandler((request, reply) => refusals.refuse(new AppError('route_not_found'), request, reply))

  for (const add of DASHBOARD_ROUTES) add(app, { ...api, ...services, ...sessionLookup, gate, operations })
  pageRoutes(app)
  await app.ready()
  return app
}
