// The Fastify application that the API and the webhooks host share.
import type { IncomingMessage, Server } from 'node:http'
import Fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { limitConnections, refuseUnreadable, type ErrorBody } from './connections.ts'
import { AppError } from './errors.ts'
import { HEALTH_PATH } from './health.ts'
import { newId } from './ids.ts'
import type { Log } from './log.ts'
import { reportAnswers } from './report-requests.ts'
import { throttle } from './seldom.ts'
import { isStopping } from './stopping.ts'

/** The form of a request id from a caller. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/

const head_requests = new WeakSet<IncomingMessage>()

const PROXY_WARNING_INTERVAL_MS = 600_000
/** The time for running requests after the signal to stop. */
const CLOSE_TIMEOUT_MS = 12_000
/** The interval at which requests are checked for timeouts and disconnected callers. */
const TIMEOUT_CHECK_INTERVAL_MS = 500

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The response timeout of this route, if it differs from the listener's. */
    response_timeout_ms?: number
  }
  interface FastifyRequest {
    /** Whether another listener answers the request. */
    is_forwarded?: boolean
  }
}

/** The default maximum number of connections. */
const MAX_CONNECTIONS = 10_000

/**
 * Creates a Fastify application. It gives each request an id, measures and logs its answer, closes silent
 * connections, reads `X-Forwarded-For` only from `trusted_proxies`, accepts only content types that the caller adds,
 * answers unparsable requests with `errorBody`, and closes its connections when it is closed. It answers `HEAD` like
 * `GET`, and `GET /healthz` while the process runs.
 *
 * `log_sample_rate`: the share of requests that are logged (0 to 1); failures are always logged. `about`: further
 * fields for the log line of a request. `isMeasured`: false for a request that counts in no metric. A request that is
 * `is_forwarded` to another listener is measured and logged there. A request that has not fully arrived within
 * `request_timeout_ms` is refused with `request_timeout`; a request without an answer within `response_timeout_ms`
 * after that, with `timeout`. When the application is closed, running requests have `closing_ms` to finish. One network
 * gets at most half of `max_connections`, unless proxies are trusted.
 */
export function createListener(
  name: string,
  {
    log,
    request_timeout_ms,
    trusted_proxies,
    log_sample_rate,
    response_timeout_ms,
    closing_ms = CLOSE_TIMEOUT_MS,
    max_connections = MAX_CONNECTIONS,
    about = () => ({}),
    isMeasured = () => true,
    errorBody,
    ...options
  }: {
    log: Log
    request_timeout_ms: number
    trusted_proxies: string[]
    log_sample_rate: number
    response_timeout_ms?: number
    closing_ms?: number
    max_connections?: number
    about?: (request: FastifyRequest) => Record<string, unknown>
    isMeasured?: (request: FastifyRequest) => boolean
    errorBody: ErrorBody
  } & Omit<FastifyHttpOptions<Server>, 'loggerInstance'>,
): FastifyInstance {
  const app = Fastify({
    ...listenerOptions(log, { request_timeout_ms, trusted_proxies, errorBody }),
    ...options,
  })
  app.removeAllContentTypeParsers()
  // A trusted proxy opens the connections for all its callers.
  const per_network = trusted_proxies.length > 0 ? max_connections : Math.ceil(max_connections / 2)
  limitConnections(app.server, { total: max_connections, per_network }, errorBody)
  app.get(HEALTH_PATH, () => ({ status: 'ok' }))
  // By default Node answers 417 without a body or our headers. An unknown `Expect` is ignored instead.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))

  const warnOfProxy = proxyWarning(log)
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    warnOfProxy(request)
    done()
  })
  app.decorateRequest('disconnect_listeners')
  app.decorateRequest('span')
  if (response_timeout_ms !== undefined) enforceResponseTimeout(app, response_timeout_ms)
  endConnectionsOnClose(app, closing_ms)
  reportAnswers(app, name, { log, log_sample_rate, about, isMeasured })
  return app
}

/**
 * The Fastify options of all listeners. With Fastify's own type, the options would depend on the type of the logger.
 */
function listenerOptions(
  log: Log,
  {
    request_timeout_ms,
    trusted_proxies,
    errorBody,
  }: { request_timeout_ms: number; trusted_proxies: string[]; errorBody: ErrorBody },
): FastifyHttpOptions<Server> {
  return {
    // Fastify's own log is limited to warnings: our own code logs listening addresses and answers.
    loggerInstance: frameworkLog(log),
    logController: new LogController({ disableRequestLogging: true }),
    return503OnClosing: false,
    rewriteUrl,
    requestTimeout: request_timeout_ms,
    trustProxy: trusted_proxies.length > 0 && trusted_proxies,
    http: {
      headersTimeout: Math.ceil(request_timeout_ms / 2),
      connectionsCheckingInterval: Math.ceil(request_timeout_ms / 6),
      // The API refuses a missing Host itself: Node's refusal has no body and none of our headers.
      requireHostHeader: false,
    },
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    clientErrorHandler: (error, socket) => refuseUnreadable(error, socket, errorBody),
    genReqId: ({ headers: { 'x-request-id': request_id } }) =>
      typeof request_id === 'string' && REQUEST_ID.test(request_id) ? request_id : newId(),
  }
}

/**
 * Returns a function that warns if a request comes through a proxy that is not trusted: all callers behind such a proxy
 * count as one.
 */
function proxyWarning(log: Log): (request: FastifyRequest) => void {
  const warn = throttle(
    (suppressed, peer: string | undefined) =>
      log.warn(
        { suppressed },
        `X-Forwarded-For from ${peer} is ignored: all requests through it count as one caller. If it is your proxy, add it to TRUSTED_PROXIES, e.g. TRUSTED_PROXIES=${peer}`,
      ),
    PROXY_WARNING_INTERVAL_MS,
  )
  return (request) => {
    if (request.headers['x-forwarded-for'] !== undefined && (request.ips?.length ?? 1) === 1)
      warn(request.socket.remoteAddress)
  }
}

/**
 * While the process stops or the listener closes, every answer closes its connection: callers connect elsewhere, and
 * closing waits for open connections. A connection whose request does not end is cut after `closing_ms`.
 */
function endConnectionsOnClose(app: FastifyInstance, closing_ms: number): void {
  let closing = false
  app.addHook('preClose', (done) => {
    closing = true
    setTimeout(() => app.server.closeAllConnections(), closing_ms).unref()
    done()
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (closing || isStopping()) reply.header('connection', 'close')
    done(null, payload)
  })
}

/**
 * Whether this is a HEAD request. A route that streams its answer must not start the stream for it: the body is
 * dropped, and the stream would never end.
 */
export function isHeadRequest({ raw }: FastifyRequest): boolean {
  return head_requests.has(raw)
}

// Every route, hook and rule sees a `HEAD` request as `GET`. Node has already recorded that the answer has no body.
function rewriteUrl(request: IncomingMessage): string {
  if (request.method === 'HEAD') {
    head_requests.add(request)
    request.method = 'GET'
  }
  return request.url ?? '/'
}

/**
 * Refuses requests whose answer takes longer than `default_ms`, or the `response_timeout_ms` of their route, after
 * they have arrived. Fastify's `handlerTimeout` needs a timer and an `AbortController` for each request, which cost 5%
 * of a request.
 */
function enforceResponseTimeout(app: FastifyInstance, default_ms: number): void {
  const open = new Map<FastifyReply, number>()
  let timer: NodeJS.Timeout | undefined
  const limitOf = ({ routeOptions }: FastifyRequest) => routeOptions.config.response_timeout_ms ?? default_ms
  app.addHook('onRequest', (request, reply, done) => {
    open.set(reply, performance.now() + limitOf(request))
    timer ??= setInterval(check, Math.min(TIMEOUT_CHECK_INTERVAL_MS, default_ms)).unref()
    done()
  })
  app.addHook('onResponse', (_request, reply, done) => {
    open.delete(reply)
    done()
  })
  function check(): void {
    const now = performance.now()
    for (const [reply, until] of open) {
      const { complete, socket } = reply.request.raw
      if (!socket.destroyed) {
        // Node limits how long a request may take to arrive. The response timeout begins when a check first sees
        // the full request.
        const deadline = !complete ? Infinity : until === Infinity ? now + limitOf(reply.request) : until
        open.set(reply, deadline)
        if (deadline > now) continue
      }
      open.delete(reply)
      reply.request.disconnect_listeners?.forEach((disconnected) => disconnected())
      // A disconnected caller gets no answer, and Fastify does not call `onResponse`.
      if (reply.sent || socket.destroyed) continue
      // An answer that has begun cannot be replaced by an error.
      if (reply.raw.headersSent) reply.raw.destroy()
      else reply.send(new AppError('timeout'))
    }
    if (open.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
  app.addHook('onClose', () => clearInterval(timer))
}

/**
 * Logs Fastify's own warnings and errors, each level at most once a second: during an outage every request that times
 * out causes a warning.
 */
function frameworkLog(log: Log): FastifyBaseLogger {
  const throttled = (level: 'warn' | 'error' | 'fatal') =>
    throttle((suppressed, bindings: object, facts: unknown, message?: string) =>
      log.child({ ...bindings, suppressed })[level](facts, message),
    )
  const [warn, error, fatal] = [throttled('warn'), throttled('error'), throttled('fatal')]
  const ignore = () => {}
  const createLogger = (bindings: object): FastifyBaseLogger => ({
    level: 'warn',
    warn: (facts: unknown, message?: string) => warn(bindings, facts, message),
    error: (facts: unknown, message?: string) => error(bindings, facts, message),
    fatal: (facts: unknown, message?: string) => fatal(bindings, facts, message),
    info: ignore,
    debug: ignore,
    trace: ignore,
    silent: ignore,
    child: (more) => createLogger({ ...bindings, ...more }),
  })
  return createLogger({})
}
