// The spans of requests. A span begins only when the caller is authenticated, so a flood of refused requests makes
// none.
import { isIP } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from './config.ts'
import { networksOf } from './public-addresses.ts'
import { isTracing, startSpan, withSpan } from './tracing.ts'
import type { TraceSpan } from './tracing/span.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Undefined if the request is not traced. */
    span?: TraceSpan
  }
}

type RequestSpanOptions = {
  tenant_id?: string
  /** The trace context of the parent. Default: the span begins a trace. */
  parent?: string | undefined
  /** Finds the trace context of a link after the answer: see `TraceSpan.end`. */
  findLink?: () => Promise<string | null>
}

/**
 * Starts the span of a request, which ends with its answer or when the caller disconnects. It includes the time since
 * the request arrived. Undefined if the request is not sampled.
 */
export function startRequestSpan(
  request: FastifyRequest,
  reply: FastifyReply,
  { tenant_id, parent, findLink }: RequestSpanOptions,
): TraceSpan | undefined {
  if (!isTracing()) return undefined
  const { method, protocol, raw, routeOptions } = request
  const route = routeOptions.url ?? '*'
  const span = startSpan(`${method} ${route}`, {
    kind: 'server',
    parent,
    started_at: performance.now() - reply.elapsedTime,
    attributes: {
      'http.request.method': method,
      'http.route': route,
      'url.scheme': protocol,
      'network.protocol.version': raw.httpVersion,
      'sluice.tenant_id': tenant_id,
    },
  })
  if (span === undefined) return undefined
  request.span = span
  // Also emitted if the caller disconnects.
  reply.raw.once('close', () => {
    const { statusCode: status, writableFinished: is_answered } = reply.raw
    if (is_answered) span.set({ 'http.response.status_code': status })
    const failure = !is_answered ? 'disconnected' : status >= 500 ? String(status) : undefined
    span.end({ failure, findLink })
  })
  return span
}

/**
 * Starts a span for each sampled request to a route whose caller has been authenticated by an earlier hook. `tenantOf`:
 * the tenant of such a request; undefined without authentication. A trusted caller's `traceparent` names the parent,
 * and decides whether the request is sampled. With another caller's, the span begins a trace and has a link.
 */
export function traceRequests(
  app: FastifyInstance,
  config: Config,
  tenantOf: (request: FastifyRequest) => string | undefined,
): void {
  if (!isTracing()) return
  const isTrusted = trustedCallers(config)
  app.addHook('onRequest', (request, reply, done) => {
    const tenant_id = tenantOf(request)
    if (tenant_id === undefined || request.is404) return done()
    const { traceparent } = request.headers
    const context = typeof traceparent === 'string' ? traceparent : undefined
    const continues = context !== undefined && isTrusted(request.ip)
    const span = startRequestSpan(request, reply, { tenant_id, parent: continues ? context : undefined })
    if (span === undefined) return done()
    if (context !== undefined && !continues) span.link(context)
    withSpan(span, done)
  })
}

/** Whether the trace of a caller at this address is continued. */
function trustedCallers({ TRACES_TRUSTED_CALLERS: networks, NODE_ENV }: Config): (ip: string) => boolean {
  if (networks === undefined) return () => NODE_ENV !== 'production'
  const trusted = networksOf(networks)
  // IPv4 networks also match IPv4-mapped IPv6 addresses.
  return (ip) => isIP(ip) > 0 && trusted.check(ip, isIP(ip) === 4 ? 'ipv4' : 'ipv6')
}
