// A listener: what the API and the webhooks host ask of Fastify alike.
import type { Server } from 'node:http'
import Fastify, { LogController, type FastifyHttpOptions, type FastifyInstance } from 'fastify'
import type { Log } from './log.ts'
import { metrics } from './metrics.ts'

/**
 * A Fastify application that counts its answers, gives up on silent peers, takes no body but as `application/json` or as
 * told, and ends its connections when it is closed.
 */
export function createListener(
  name: string,
  {
    log,
    request_timeout_ms,
    ...options
  }: { log: Log; request_timeout_ms: number } & Omit<FastifyHttpOptions<Server>, 'loggerInstance'>,
): FastifyInstance {
  // As a variable of the base type: Fastify's own types follow the logger's.
  const listenerOptions: FastifyHttpOptions<Server> = {
    // Of its own accord Fastify only warns: who listens where, and what was answered, is said here once.
    loggerInstance: log.child({}, { level: log.isLevelEnabled('info') ? 'warn' : log.level }),
    logController: new LogController({ disableRequestLogging: true }),
    return503OnClosing: false,
    requestTimeout: request_timeout_ms,
    http: { headersTimeout: request_timeout_ms / 2, connectionsCheckingInterval: request_timeout_ms / 6 },
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    ...options,
  }
  const app = Fastify(listenerOptions)
  app.removeAllContentTypeParsers()

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
    log.debug({ request_id: request.id, method, route, status, ms }, 'answered')
    done()
  })
  return app
}
