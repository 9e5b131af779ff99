// Sends deliveries: each attempt posts the signed event once, and its result is written with the delivery.
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { signStandardWebhook } from '#core/standard-webhooks.ts'
import { tenantHeaders } from '#core/tenant-headers.ts'
import { startChildSpan } from '#core/tracing.ts'
import type { TraceSpan } from '#core/tracing/span.ts'
import { loadDelivery, type DeliveryKey, type LoadedDelivery } from '#domain/deliveries/load.ts'
import { payloadOf } from '#domain/deliveries/payload.ts'
import { retryDelayMs } from '#domain/deliveries/schedule.ts'
import type { DeliveryChange } from '#domain/deliveries/settle.ts'
import { completeEventData } from '#domain/event-data.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { endpointSealingContext } from '#domain/webhook-endpoints/endpoint.ts'
import { replayDelivery, sendDelivery, testDelivery, type deliveryJobs } from '#jobs/deliveries.ts'
import { awaitPermit, currentPermit, NotStarted } from '#providers/permit.ts'
import type { ReceiverAnswer, ReceiverFailure } from '#providers/receivers.ts'
import type { WorkerContext } from '../../context.ts'
import { discard, done, failed, retryUndone, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { outcomeOfSealError } from '../calls.ts'
import { handling, type JobOf } from '../handler.ts'
import { deliveryEffects } from './effects.ts'

/** A receiver answers this status to end its subscription. */
const HTTP_GONE = 410
/** The interval at which a permit is renewed while the connection opens: a permit expires after 900 ms. */
const PERMIT_RENEWAL_INTERVAL_MS = 400

type AttemptKind = DeliveryChange['how']
type AttemptJob = JobOf<(typeof deliveryJobs)[keyof typeof deliveryJobs]>

export const deliveryHandlers = {
  [sendDelivery.name]: handling(sendDelivery, attemptAs('scheduled'), giveUpAs('scheduled')),
  [replayDelivery.name]: handling(replayDelivery, attemptAs('manual'), giveUpAs('manual')),
  [testDelivery.name]: handling(testDelivery, attemptAs('test'), giveUpAs('test')),
}

function attemptAs(how: AttemptKind) {
  return async (context: WorkerContext, { tenant_id, payload, signal }: AttemptJob): Promise<Decision> => {
    const delivery = await load(context, { tenant_id, ...payload })
    // Retention has deleted the delivery.
    if (delivery === undefined) return done()
    const recovers = 'recovery_id' in payload && payload.recovery_id !== null
    // A scheduled attempt ends here if another job has settled the delivery in the meantime. For a recovery, only a
    // delivery that was delivered counts as settled.
    const settled = recovers ? delivery.status === 'delivered' : delivery.status !== 'pending'
    if (how === 'scheduled' && settled) return done()
    if (delivery.deleted) return endUnsent(delivery, how, 'skipped')
    if (how === 'scheduled' && !recovers && delivery.dropped_as !== null)
      return endUnsent(delivery, how, delivery.dropped_as)
    if (delivery.stored === null && delivery.sample === null) return endUnsent(delivery, how, 'exhausted')
    try {
      return decide(context, delivery, how, await post(context, delivery, signal))
    } catch (error) {
      return retryUndone(outcomeOfSealError(error))
    }
  }
}

/** Loads the delivery, and adds its ids to the log lines of the job. */
async function load({ sql }: WorkerContext, key: DeliveryKey): Promise<LoadedDelivery | undefined> {
  const delivery = await loadDelivery(sql, key)
  if (delivery === undefined) return undefined
  const { endpoint_id, event_id, type, url, stored, sample } = delivery
  addLogFacts({ endpoint_id, event_id, type, host: new URL(url).host, ...resourceId(type, stored ?? sample) })
  return delivery
}

/** The id of the event's resource, under the name that other log lines use, such as `payment_id`. */
function resourceId(type: string, data: Json | null): Record<string, string> {
  const resource = z.object({ id: z.string() }).safeParse(data).data
  return resource === undefined ? {} : { [`${type.split('.')[0]}_id`]: resource.id }
}

/** Ends a job whose attempts died or threw: together they count as one failed attempt at its delivery. */
function giveUpAs(how: AttemptKind) {
  return async (
    context: WorkerContext,
    { tenant_id, payload }: ClaimedJob,
    reason: string,
  ): Promise<Decision> => {
    const ids = testDelivery.payload.safeParse(payload).data
    const delivery = ids && (await load(context, { tenant_id, ...ids }))
    if (delivery === undefined) return discard(reason)
    return decide(context, delivery, how, {
      error: 'not_sent',
      message: 'the event could not be sent',
      duration_ms: 0,
    })
  }
}

async function post(
  { receivers, vault, livemode }: WorkerContext,
  { tenant_id, endpoint_id, ...delivery }: LoadedDelivery,
  signal: AbortSignal,
): Promise<ReceiverAnswer | ReceiverFailure> {
  const permit = currentPermit()
  await awaitPermit(permit)
  const { event_id, event_created_at: created_at, type, sequence, url, headers, secrets } = delivery
  const { stored, sample, completing } = delivery
  const data = sample ?? completeEventData({ tenant_id, type, stored }, completing, vault)
  const body = payloadOf({
    id: event_id,
    type,
    created_at,
    sequence,
    tenant_id,
    livemode,
    data,
    omits: completing?.omits,
  })
  const open = (sealed: string, column: 'secrets' | 'headers') =>
    vault.open(sealed, endpointSealingContext(tenant_id, endpoint_id, column))
  const tenant_headers = headers === null ? {} : tenantHeaders.parse(JSON.parse(open(headers, 'headers')))
  const opened = secrets.map((sealed) => open(sealed, 'secrets'))
  const signed = signStandardWebhook({ id: event_id, timestamp_s: Date.now() / 1000, body }, opened)
  let started = false
  const valid = () => {
    if (!permit.valid()) return false
    started = true
    permit.used()
    return true
  }
  const renewing = setInterval(() => {
    if (!started) permit.renew().catch(() => {})
  }, PERMIT_RENEWAL_INTERVAL_MS)
  const span = startRequestSpan(url)
  try {
    const answer = await receivers.post(
      { url, headers: { ...tenant_headers, ...signed, ...traceHeader(span, tenant_headers) }, body, valid },
      signal,
    )
    endRequestSpan(span, answer)
    // Nothing was sent, or the worker stopped before the answer: the delivery is sent again under the same id.
    if ('error' in answer && (answer.error === 'not_sent' || answer.error === 'abandoned'))
      throw new NotStarted()
    return answer
  } finally {
    clearInterval(renewing)
  }
}

/** The span of the request to a receiver. Its URL is the tenant's secret, so the span has only the host. */
function startRequestSpan(url: string): TraceSpan | undefined {
  return startChildSpan(() => {
    const { hostname, port, protocol } = new URL(url)
    return {
      name: 'POST',
      kind: 'client',
      attributes: {
        'http.request.method': 'POST',
        'server.address': hostname,
        'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
      },
    }
  })
}

/** The header with the trace of the request. A tenant's own header `traceparent` takes precedence. */
function traceHeader(span: TraceSpan | undefined, headers: Record<string, string>): Record<string, string> {
  const is_set = Object.keys(headers).some((name) => name.toLowerCase() === 'traceparent')
  return span === undefined || is_set ? {} : { traceparent: span.trace_context }
}

function endRequestSpan(span: TraceSpan | undefined, answer: ReceiverAnswer | ReceiverFailure): void {
  if ('error' in answer) return span?.end({ failure: answer.error })
  span?.set({ 'http.response.status_code': answer.status })
  span?.end({ failure: answer.status >= 400 ? String(answer.status) : undefined })
}

function decide(
  { config }: WorkerContext,
  delivery: LoadedDelivery,
  how: AttemptKind,
  answer: ReceiverAnswer | ReceiverFailure,
): Decision {
  const status_code = 'status' in answer ? answer.status : null
  const attempt = {
    status_code,
    duration_ms: answer.duration_ms,
    error: 'error' in answer ? answer.message : null,
    response_excerpt: 'excerpt' in answer ? answer.excerpt : null,
  }
  const gone = status_code === HTTP_GONE && how !== 'test'
  const base = { ...changeBase(delivery, how), attempt, gone }
  if (status_code !== null && status_code >= 200 && status_code < 300)
    return done({ effects: deliveryEffects({ ...base, result: 'delivered', next_ms: null }) })
  const retry_after_ms = 'status' in answer ? answer.retry_after_ms : null
  const next_ms =
    how === 'scheduled'
      ? retryDelayMs(config.WEBHOOK_RETRY_SCHEDULE_S, delivery.step + 1, retry_after_ms)
      : null
  const result = gone || how === 'manual' ? 'failed' : next_ms === null ? 'exhausted' : 'retry'
  const message = attempt.error ?? `answered ${status_code}`
  return failed(
    { code: 'delivery_failed', message },
    { effects: deliveryEffects({ ...base, result, next_ms: result === 'retry' ? next_ms : null }) },
  )
}

/** Ends the delivery without sending it. */
function endUnsent(
  delivery: LoadedDelivery,
  how: AttemptKind,
  result: 'failed' | 'skipped' | 'exhausted',
): Decision {
  const change = { ...changeBase(delivery, how), gone: false, attempt: null, next_ms: null, result }
  return done({ effects: deliveryEffects(change) })
}

function changeBase({ id, created_at, endpoint_id }: LoadedDelivery, how: AttemptKind) {
  return { delivery_id: id, delivery_created_at: created_at, endpoint_id, how }
}
