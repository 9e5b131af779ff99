// A listener: what the API and the webhooks host ask of Fastify alike.
import { STATUS_CODES, type Server } from 'node:http'
import type { Socket } from 'node:net'
import Fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyRequest,
} from 'fastify'
import { ERRORS, type ErrorCode } from './errors.ts'
import { newId } from './ids.ts'
import { createSampler, withoutRedaction, type Log } from './log.ts'
import { metrics } from './metrics.ts'
import { seldom } from './seldom.ts'

/** What a caller may call its request. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/

const TELL_OF_PROXIES_MS = 600_000

const UNREADABLE: Record<string, ErrorCode> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
}

/**
 * A Fastify application that names, counts and logs its answers, gives up on silent peers, believes nobody but
 * `trusted_proxies` whom they speak for, takes no body but as `application/json` or as told, answers what it cannot read with
 * what `errorBody` makes of it, and ends its connections when it is closed. `logged_part`: of how many requests a line is
 * logged; failures always are. `about`: what that line says of a request beyond its route.
 */
export function createListener(
  name: string,
  {
    log,
    request_timeout_ms,
    trusted_proxies,
    logged_part,
    about = () => ({}),
    errorBody,
    ...options
  }: {
    log: Log
    request_timeout_ms: number
    trusted_proxies: string[]
    logged_part: number
    about?: (request: FastifyRequest) => Record<string, unknown>
    errorBody: (code: ErrorCode, message: string, request_id: string) => unknown
  } & Omit<FastifyHttpOptions<Server>, 'loggerInstance'>,
): FastifyInstance {
  // As a variable of the base type: Fastify's own types follow the logger's.
  const listenerOptions: FastifyHttpOptions<Server> = {
    // Of its own accord Fastify only warns: who listens where, and what was answered, is said here once.
    loggerInstance: frameworkLog(log),
    logController: new LogController({ disableRequestLogging: true }),
    return503OnClosing: false,
    requestTimeout: request_timeout_ms,
    trustProxy: trusted_proxies.length > 0 && trusted_proxies,
    http: {
      headersTimeout: Math.ceil(request_timeout_ms / 2),
      connectionsCheckingInterval: Math.ceil(request_timeout_ms / 6),
      // Node's own refusal has neither a body nor a header of ours.
      requireHostHeader: false,
    },
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    clientErrorHandler: (error, socket) => unreadable(error, socket, errorBody),
    genReqId: ({ headers: { 'x-request-id': given } }) =>
      typeof given === 'string' && REQUEST_ID.test(given) ? given : newId(),
    ...options,
  }
  const sampled = createSampler(logged_part)
  const lines = withoutRedaction(log)
  const app = Fastify(listenerOptions)
  app.removeAllContentTypeParsers()
  // Left alone, Node answers 417 without a body or a header of ours; an unknown expectation may as well be passed over.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))

  const unbelieved = seldom(
    (untold, peer: string | undefined) =>
      log.warn(
        { untold },
        `X-Forwarded-For from ${peer} is not believed: all who come through it count as one caller. If it is a proxy of yours, name it in TRUSTED_PROXIES, e.g. TRUSTED_PROXIES=${peer}`,
      ),
    TELL_OF_PROXIES_MS,
  )
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    if (request.headers['x-forwarded-for'] !== undefined && (request.ips?.length ?? 1) === 1)
      unbelieved(request.socket.remoteAddress)
    done()
  })

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
    const { method } = request
    const { statusCode: status, elapsedTime: ms } = reply
    metrics.request.observe({ listener: name, method, route, status }, ms / 1000)
    if (status >= 500 || sampled(request.id)) {
      const bytes = Number(reply.getHeader('content-length') ?? 0)
      lines.info(
        {
          request_id: request.id,
          method,
          route,
          status,
          ms: Math.round(ms * 10) / 10,
          bytes,
          ...about(request),
        },
        'answered',
      )
    }
    done()
  })
  return app
}

/**
 * Fastify's own warnings and errors, once a second at most of each level: an outage brings one with each request that is answered
 * after its time is over.
 */
function frameworkLog(log: Log): FastifyBaseLogger {
  const say = (level: 'warn' | 'error' | 'fatal') =>
    seldom((untold, of: object, facts: unknown, message?: string) =>
      log.child({ ...of, untold })[level](facts, message),
    )
  const [warn, error, fatal] = [say('warn'), say('error'), say('fatal')]
  const nothing = () => {}
  const about = (of: object): FastifyBaseLogger => ({
    level: 'warn',
    warn: (facts: unknown, message?: string) => warn(of, facts, message),
    error: (facts: unknown, message?: string) => error(of, facts, message),
    fatal: (facts: unknown, message?: string) => fatal(of, facts, message),
    info: nothing,
    debug: nothing,
    trace: nothing,
    silent: nothing,
    child: (more) => about({ ...of, ...more }),
  })
  return about({})
}

/** Answers what is not HTTP and never reaches a route; Node's own answer would be bare. */
function unreadable(
  error: NodeJS.ErrnoException,
  socket: Socket,
  errorBody: (code: ErrorCode, message: string, request_id: string) => unknown,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return
  const code = UNREADABLE[error.code ?? ''] ?? 'invalid_request'
  const [status, standard] = ERRORS[code]
  const request_id = newId()
  const message = code === 'invalid_request' ? 'The request could not be read.' : standard
  const body = JSON.stringify(errorBody(code, message, request_id))
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${request_id}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
