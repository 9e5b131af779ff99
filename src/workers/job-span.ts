// The span of an attempt at a job. It ends after the job, without delay for the job.
import { messagingAttributes, startChildSpan, startSpan, statementSpan } from '#core/tracing.ts'
import type { TraceSpan } from '#core/tracing/span.ts'
import { findTraceOfNotification } from '#domain/jobs/traces.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { notificationJobs } from '#jobs/notifications.ts'
import type { FinishedCall } from '#providers/http.ts'
import type { JobClaim } from './claims.ts'
import type { WorkerContext } from './context.ts'

const NOTIFICATION_JOBS: readonly string[] = Object.values(notificationJobs).map(({ name }) => name)
/** Outcomes after which the attempt is a failed span. */
const FAILURES: ReadonlySet<string> = new Set(['retry', 'ambiguous', 'misconfigured', 'fenced'])

/**
 * Starts the span of an attempt, with its claim. The first attempt continues the trace of the request; a later attempt
 * begins a trace with a link to it. Undefined if the request was not sampled.
 */
export function startJobSpan({ job, requested_at, claimed_at }: JobClaim): TraceSpan | undefined {
  const { trace_context, is_first_attempt } = job
  if (trace_context === null) return undefined
  const span = startSpan(`process ${job.queue}`, {
    kind: 'consumer',
    ...(is_first_attempt ? { parent: trace_context } : { link: trace_context }),
    started_at: requested_at,
    attributes: {
      ...messagingAttributes('process', job),
      'sluice.job.name': job.name,
      'sluice.job.attempt': job.attempt,
      'sluice.tenant_id': job.tenant_id,
    },
  })
  if (span === undefined) return undefined
  const claim = { ...statementSpan('claim'), parent: span.trace_context, started_at: requested_at }
  startSpan('claim', claim)?.end({ at: claimed_at })
  return span
}

/** Adds the span of a finished call to a provider. No call contains our trace. */
export function traceCall(provider: string, { operation, outcome, duration_ms }: FinishedCall): void {
  startChildSpan(() => ({
    name: `${provider} ${operation}`,
    kind: 'client',
    started_at: performance.now() - duration_ms,
    attributes: {
      'service.peer.name': provider,
      'sluice.provider.operation': operation,
      'sluice.provider.outcome': outcome,
    },
  }))?.end({ failure: outcome === 'done' ? undefined : outcome })
}

/** Ends the span of an attempt. The span of a notification gets a link to the trace of the resource. */
export function endJobSpan(
  { sql }: WorkerContext,
  span: TraceSpan,
  job: ClaimedJob,
  settlement: Settlement | undefined,
): void {
  const outcome = settlement?.outcome ?? 'unsettled'
  span.set({ 'sluice.job.outcome': outcome, 'sluice.job.state': settlement?.state })
  span.end({
    failure: settlement === undefined || FAILURES.has(outcome) ? outcome : undefined,
    // A notification and its job have the same id.
    ...(NOTIFICATION_JOBS.includes(job.name) && { findLink: () => findTraceOfNotification(sql, job.id) }),
  })
}
