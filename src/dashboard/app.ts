// The dashboard as a Fastify application: the guard in front, sign-in, the API's routes for sessions, its own, and the pages.
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { serializerCompiler } from 'fastify-type-provider-zod'
import { parseBody } from '#api/body.ts'
import type { ApiContext } from '#api/context.ts'
import { networkOf } from '#core/network.ts'
import { createLimit } from '#api/limit.ts'
import { stopWaiting } from '#api/open.ts'
import { checkPath, checkPlus, checkQuery, parseQuery } from '#api/query.ts'
import { createRefusals } from '#api/refusals.ts'
import { validatorCompiler } from '#api/validate.ts'
import { createBodyReader } from '#core/bodies.ts'
import { AppError } from '#core/errors.ts'
import { statementsUnderWay, STATEMENTS_PER_CONNECTION } from '#core/pool.ts'
import { createListener, PROBE } from '#core/listener.ts'
import { findSignedIn } from '#domain/people/find.ts'
import type { DashboardContext, FoundSession } from './context.ts'
import { createGuard } from './guard.ts'
import { recordOutcome } from './on-record.ts'
import { pageRoutes } from './pages.ts'
import { DASHBOARD_ROUTES } from './routes/index.ts'
import { headersOf } from './routes/sign-in.ts'
import { createSessionsGate } from './sessions-gate.ts'
import { createTenantGate } from './tenant-gate.ts'
import { buildApiForSessions, isAct } from './v1.ts'

const BODY_LIMIT_BYTES = 64 * 1024
/** Of the dashboard's own routes, for each address. */
const LIMIT = { rps: 50, burst: 500 }

/** Of every answer. The page has a policy of its own. */
const HEADERS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=()',
}
/** Acts of a user, wherever they are asked for: what is on record can never be taken off it. */
const ACTS = { rps: 1, burst: 120, most: 20_000 }
/** Where the pages are under https: browsers ask for them over nothing else. */
const HSTS = { 'strict-transport-security': 'max-age=31536000' }
/** The API's own routes, which have limits of their own. */
const V1 = '/api/v1/'
const LIMITED = /^\/(?:api|ops\/bull-board)(?:\/|$)/
/** Another way to write a path: a whole address, an empty or dotted part, or an encoded character that needs no encoding. */
const NOT_CANONICAL = /^[^/]|\/\/|\/\.\.?(?:\/|$)|%(?:2[de]|3\d|[46][1-9a-f]|[57][\da]|5f|7e)/i

type Beside = Pick<DashboardContext, 'sessions' | 'operators' | 'emulators' | 'version'>

/** Builds the dashboard; the caller listens and closes. */
export async function buildDashboard(api: ApiContext, beside: Beside): Promise<FastifyInstance> {
  const { config, sql, log } = api
  const { sessions } = beside
  const guard = createGuard(config)
  const headers = { ...HEADERS, ...(config.DASHBOARD_URL?.startsWith('https:') && HSTS) }
  const [limit, limitActs] = [createLimit(LIMIT), createLimit(ACTS)]
  const refusals = createRefusals(() => config.API_URL ?? '', log)

  async function look(headers: Headers, options?: { prolong: boolean }): Promise<FoundSession | undefined> {
    const found = await sessions.find(headers, options)
    if (found === undefined) return undefined
    const signed_in = await findSignedIn(sql, found.session_id)
    return signed_in && { signed_in, set_cookies: found.set_cookies }
  }
  const passCookie = createSessionsGate()
  const findSession: DashboardContext['findSession'] = async (request, options) =>
    passCookie(request, () => look(headersOf(request), options))
  const findGivenSession: DashboardContext['findGivenSession'] = async (cookies) =>
    look(new Headers({ cookie: cookies.map((cookie) => cookie.split(';')[0]!).join('; ') }))
  const signedIn: DashboardContext['signedIn'] = async (request, options) => {
    const found = await findSession(request, options)
    if (found === undefined) throw new AppError('unauthorized', { message: 'Sign in first.' })
    request.set_cookies = found.set_cookies
    request.signed_in = found.signed_in
    if (isAct(request)) limitActs(found.signed_in.user_id)
    return found.signed_in
  }

  const gate = createTenantGate(sql, signedIn)
  const { app: v1, operations } = await buildApiForSessions(api, gate)
  const app = createListener('dashboard', {
    log,
    request_timeout_ms: config.REQUEST_TIMEOUT_MS,
    trusted_proxies: config.TRUSTED_PROXIES,
    logged_part: config.logged_part,
    about: ({ signed_in }) => ({ user_id: signed_in?.user_id, tenant_id: signed_in?.tenant?.id }),
    bodyLimit: BODY_LIMIT_BYTES,
    answer_ms: 15_000,
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
  app.decorateRequest('on_record')
  app.decorateRequest('sql')
  app.decorateRequest('passed_on')

  /** Throws unless the request may be looked at. */
  function admit(request: FastifyRequest, reply: FastifyReply): void {
    // On the answer itself: some of them are written by others.
    for (const [name, value] of Object.entries(headers)) reply.raw.setHeader(name, value)
    const [path] = request.url.split('?', 1) as [string]
    // The router decodes paths and takes whole addresses, so the route that it found counts as well as the text.
    if ([path, request.routeOptions.url ?? ''].some((each) => LIMITED.test(each))) {
      reply.header('cache-control', 'no-store')
      if (!path.startsWith(V1)) {
        limit(networkOf(request.ip), reply)
        if (statementsUnderWay(sql) > config.DATABASE_POOL * STATEMENTS_PER_CONNECTION)
          throw new AppError('overloaded', { message: 'Too many statements wait for the database.' })
      }
    }
    guard(request)
    if (NOT_CANONICAL.test(path)) throw new AppError('route_not_found')
    checkPath(request.url)
  }
  app.addHook('onRequest', async (request, reply) => {
    // A probe comes by whatever address its sender knows.
    if (request.routeOptions.url === PROBE) return
    admit(request, reply)
    const { url } = request
    if (url.startsWith(V1)) {
      request.passed_on = true
      reply.hijack()
      request.raw.url = url.slice('/api'.length)
      v1.routing(request.raw, reply.raw)
      return
    }
    checkQuery(url, request.query)
    // The address of a page is its own: browsers write blanks there as they like.
    if (url.startsWith('/api/')) checkPlus(url)
  })
  app.addHook('onSend', async (request, reply) => await recordOutcome(api, request, reply))
  app.addHook('preClose', async () => {
    stopWaiting(api)
    await v1.close()
  })
  app.setErrorHandler((error: FastifyError, request, reply) => refusals.refuse(error, request, reply))
  app.setNotFoundHandler((request, reply) => refusals.refuse(new AppError('route_not_found'), request, reply))

  for (const add of DASHBOARD_ROUTES)
    add(app, { ...api, ...beside, findSession, findGivenSession, signedIn, gate, operations })
  pageRoutes(app)
  await app.ready()
  return app
}
