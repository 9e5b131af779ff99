// The span of an attempt at a job. The first attempt continues the trace of the request; a later attempt begins a trace
// with a link to it.
import { startChildSpan, startSpan, statementSpan } from '#core/tracing.ts'
import type { TraceSpan } from '#core/tracing/span.ts'
import { findTraceOfNotification } from '#domain/jobs/traces.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { applyNotification } from '#jobs/notifications.ts'
import type { FinishedCall } from '#providers/http.ts'
import type { JobClaim } from './claims.ts'
import type { WorkerContext } from './context.ts'

/** Outcomes after which the attempt is a failed span. */
const FAILURES: ReadonlySet<string> = new Set(['retry', 'ambiguous', 'misconfigured', 'fenced'])

/** Starts the span of an attempt, with its claim. Undefined if the request was not sampled. */
export function startJobSpan({ job, requested_at, claimed_at }: JobClaim): TraceSpan | undefined {
  const { trace_parent, trace_link } = job
  if (trace_parent === null && trace_link === null) return undefined
  const span = startSpan(`process ${job.queue}`, {
    kind: 'consumer',
    parent: trace_parent,
    link: trace_link,
    started_at: requested_at,
    attributes: {
      'messaging.system': 'bullmq',
      'messaging.operation.name': 'process',
      'messaging.operation.type': 'process',
      'messaging.destination.name': job.queue,
      'messaging.message.id': job.id,
      'sluice.job.name': job.name,
      'sluice.job.attempt': job.attempt,
      'sluice.tenant_id': job.tenant_id,
    },
  })
  startSpan('claim', {
    ...statementSpan('claim'),
    parent: span?.traceparent,
    started_at: requested_at,
  })?.end(undefined, claimed_at)
  return span
}

/** Adds the span of a finished call to a provider. No call contains our trace. */
export function traceCall(provider: string, { operation, outcome, duration_ms }: FinishedCall): void {
  startChildSpan(`${provider} ${operation}`, {
    kind: 'client',
    started_at: performance.now() - duration_ms,
    attributes: {
      'service.peer.name': provider,
      'sluice.provider.operation': operation,
      'sluice.provider.outcome': outcome,
    },
  })?.end(outcome === 'done' ? undefined : outcome)
}

/** Ends the span of an attempt. The span of a notification gets a link to the trace of the resource. */
export async function endJobSpan(
  { sql }: WorkerContext,
  span: TraceSpan,
  job: ClaimedJob,
  settlement: Settlement | undefined,
): Promise<void> {
  if (job.name === applyNotification.name) {
    // A notification and its job have the same id. Without the database, the span has no link.
    const found = await findTraceOfNotification(sql, job.id).catch(() => null)
    if (found !== null) span.link(found)
  }
  const outcome = settlement?.outcome ?? 'unsettled'
  span.set({ 'sluice.job.outcome': outcome, 'sluice.job.state': settlement?.state })
  span.end(settlement === undefined || FAILURES.has(outcome) ? outcome : undefined)
}
