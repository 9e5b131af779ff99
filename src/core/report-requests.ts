// Reports the requests of a listener: each answer is measured, and failures and a share of the others are logged.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createSampler, withoutRedaction, type Log } from './log.ts'
import { metrics } from './metrics.ts'
import { observeTraced, traceLabels } from './tracing.ts'

/** Fields of a request for its log line. */
type RequestFields = (request: FastifyRequest) => Record<string, unknown>

/**
 * Measures the answers of a listener, and logs failures and a share of the others. `isMeasured`: false for requests
 * that count in no metric.
 */
export function reportAnswers(
  app: FastifyInstance,
  listener: string,
  {
    log,
    log_sample_rate,
    about,
    isMeasured,
  }: {
    log: Log
    log_sample_rate: number
    about: RequestFields
    isMeasured: (request: FastifyRequest) => boolean
  },
): void {
  const sampled = createSampler(log_sample_rate)
  const lines = withoutRedaction(log)
  app.addHook('onResponse', (request, reply, done) => {
    if (request.is_forwarded === true) return done()
    const route = request.routeOptions.url ?? 'none'
    const { method, span } = request
    const { statusCode: status, elapsedTime: ms } = reply
    if (isMeasured(request))
      observeTraced(metrics.request, { listener, method, route, status }, ms / 1000, span)
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
