// Reports the requests of a listener: each answer is measured, failures and a share of the others are logged, and
// sampled requests have a span.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createSampler, withoutRedaction, type Log } from './log.ts'
import { metrics } from './metrics.ts'
import { startSpan, traceLabels, withSpan } from './tracing.ts'
import type { TraceSpan } from './tracing/span.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Undefined if the request is not traced. */
    span?: TraceSpan
  }
}

/** Fields of a request for its log line. */
type RequestFields = (request: FastifyRequest) => Record<string, unknown>

/** Measures the answers of a listener, and logs failures and a share of the others. */
export function reportAnswers(
  app: FastifyInstance,
  listener: string,
  { log, log_sample_rate, about }: { log: Log; log_sample_rate: number; about: RequestFields },
): void {
  const sampled = createSampler(log_sample_rate)
  const lines = withoutRedaction(log)
  app.addHook('onResponse', (request, reply, done) => {
    if (request.is_forwarded === true) return done()
    const route = request.routeOptions.url ?? 'none'
    const { method, span } = request
    const { statusCode: status, elapsedTime: ms } = reply
    metrics.request.observe({
      labels: { listener, method, route, status },
      value: ms / 1000,
      exemplarLabels: traceLabels(span),
    })
    if (status >= 500 || sampled(request.id)) {
      const bytes = Number(reply.getHeader('content-length') ?? 0)
      lines.info(
        {
          request_id: request.id,
          ...traceLabels(span),
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
}

/**
 * Starts a span for each sampled request to a route, except files and the path `untraced`. `continues`: whether the
 * caller's `traceparent` names the parent.
 */
export function traceRequests(
  app: FastifyInstance,
  { untraced, continues, about }: { untraced: string; continues: boolean; about: RequestFields },
): void {
  app.decorateRequest('span')
  app.addHook('onRequest', (request, reply, done) => {
    const { url: route = '*' } = request.routeOptions
    if (route.endsWith('*') || route === untraced) return done()
    const { traceparent } = request.headers
    const span = startSpan(`${request.method} ${route}`, {
      kind: 'server',
      parent: continues && typeof traceparent === 'string' ? traceparent : null,
      attributes: {
        'http.request.method': request.method,
        'http.route': route,
        'url.scheme': request.protocol,
        'network.protocol.version': request.raw.httpVersion,
      },
    })
    if (span === undefined) return done()
    request.span = span
    // Also emitted if the caller disconnects.
    reply.raw.once('close', () => {
      const { statusCode: status, writableFinished: is_answered } = reply.raw
      const { tenant_id } = about(request)
      if (typeof tenant_id === 'string') span.set({ 'sluice.tenant_id': tenant_id })
      if (is_answered) span.set({ 'http.response.status_code': status })
      span.end(!is_answered ? 'disconnected' : status >= 500 ? String(status) : undefined)
    })
    withSpan(span, done)
  })
}
