// Sends deliveries: each attempt posts the signed event once, and what came of it is written with the delivery.
import { metrics } from '#core/metrics.ts'
import { signStandardWebhook } from '#core/standard-webhooks.ts'
import { tenantHeaders as headersSchema } from '#core/tenant-headers.ts'
import { loadDelivery, type DeliveryKey, type LoadedDelivery } from '#domain/deliveries/load.ts'
import { payloadOf } from '#domain/deliveries/payload.ts'
import { retryDelayMs } from '#domain/deliveries/schedule.ts'
import { settleDeliveries, type DeliverySettlement } from '#domain/deliveries/settle.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { endpointPlace } from '#domain/webhook-endpoints/endpoint.ts'
import { replayDelivery, sendDelivery, testDelivery } from '#jobs/deliveries.ts'
import { currentPermit, NotStarted } from '#providers/permit.ts'
import type { ReceiverAnswer, ReceiverFailure } from '#providers/receivers.ts'
import type { WorkerContext } from '../context.ts'
import { discard, done, failed, type Decision } from '../decision.ts'
import { addLogFacts } from '../job-log.ts'
import { onceWritten, settling, type Tells, type Told } from '../settle.ts'
import { handling, type Job } from './handler.ts'

/** The receiver wants nothing any more. */
const GONE = 410

const DELIVERY = settling<Told<DeliverySettlement>>(
  'settle_delivery',
  settleDeliveries,
  ({ job_id }) => job_id,
)
type How = DeliverySettlement['how']
type AttemptPayload = { delivery_id: string; created_at: string; recovery_id?: string | null }

export const deliveryHandlers = {
  [sendDelivery.name]: handling(sendDelivery, attemptAs('scheduled'), givenUpAs('scheduled')),
  [replayDelivery.name]: handling(replayDelivery, attemptAs('manual'), givenUpAs('manual')),
  [testDelivery.name]: handling(testDelivery, attemptAs('test'), givenUpAs('test')),
}

function attemptAs(how: How) {
  return async (
    context: WorkerContext,
    { tenant_id, payload, signal }: Job<AttemptPayload>,
  ): Promise<Decision> => {
    const delivery = await load(context, { tenant_id, ...payload })
    // It was settled meanwhile, or is kept no longer.
    if (delivery === undefined || (how === 'scheduled' && delivery.status !== 'pending')) return done()
    const { recovery_id = null } = payload
    if (how === 'scheduled' && recovery_id === null && delivery.dropped_as !== null)
      return ended(delivery, how, recovery_id, delivery.dropped_as)
    if (delivery.data === null) return ended(delivery, how, recovery_id, 'exhausted')
    return judged(context, delivery, how, recovery_id, await post(context, delivery, signal))
  }
}

/** The log lines of its job name what it is about. */
async function load({ sql }: WorkerContext, key: DeliveryKey): Promise<LoadedDelivery | undefined> {
  const delivery = await loadDelivery(sql, key)
  if (delivery === undefined) return undefined
  const { endpoint_id, event_id, type, url } = delivery
  addLogFacts({ endpoint_id, event_id, type, host: new URL(url).host })
  return delivery
}

/** What would end the worker each time is a failed attempt like another. */
function givenUpAs(how: How) {
  return async (
    context: WorkerContext,
    { tenant_id, payload }: ClaimedJob,
    reason: string,
  ): Promise<Decision> => {
    const asked = sendDelivery.payload.partial({ recovery_id: true }).safeParse(payload).data
    const delivery = asked && (await load(context, { tenant_id, ...asked }))
    if (asked === undefined || delivery === undefined) return discard(reason)
    const error = 'it could not be sent'
    return judged(context, delivery, how, asked.recovery_id ?? null, {
      error: 'not_sent',
      message: error,
      duration_ms: 0,
    })
  }
}

async function post(
  { receivers, vault }: WorkerContext,
  { tenant_id, endpoint_id, ...delivery }: LoadedDelivery,
  signal: AbortSignal,
): Promise<ReceiverAnswer | ReceiverFailure> {
  const permit = currentPermit()
  while (!permit.valid()) if (!(await permit.renew())) throw new NotStarted()
  const { event_id, event_created_at, type, sequence, data, url, headers, secrets } = delivery
  const body = payloadOf({ id: event_id, type, created_at: event_created_at, sequence, tenant_id, data })
  const opened = secrets.map((sealed) => vault.open(sealed, endpointPlace(tenant_id, endpoint_id, 'secrets')))
  const own =
    headers === null
      ? {}
      : headersSchema.parse(JSON.parse(vault.open(headers, endpointPlace(tenant_id, endpoint_id, 'headers'))))
  const signed = signStandardWebhook({ id: event_id, timestamp_s: Date.now() / 1000, body }, opened)
  const valid = () => {
    if (!permit.valid()) return false
    permit.used()
    return true
  }
  const answer = await receivers.post({ url, headers: { ...own, ...signed }, body, valid }, signal)
  // Nothing left, or nobody waited for the answer: it is sent again under the same id.
  if ('error' in answer && (answer.error === 'not_sent' || answer.error === 'abandoned'))
    throw new NotStarted()
  return answer
}

function judged(
  { config }: WorkerContext,
  delivery: LoadedDelivery,
  how: How,
  recovery_id: string | null,
  answer: ReceiverAnswer | ReceiverFailure,
): Decision {
  const status_code = 'status' in answer ? answer.status : null
  const attempt = {
    status_code,
    duration_ms: answer.duration_ms,
    error: 'error' in answer ? answer.message : null,
    response_excerpt: 'excerpt' in answer ? answer.excerpt : null,
  }
  const gone = status_code === GONE && how !== 'test'
  const about = { ...aboutOf(delivery, how, recovery_id), attempt, gone }
  if (status_code !== null && status_code >= 200 && status_code < 300)
    return done({ tells: telling({ ...about, result: 'delivered', next_ms: null }) })
  const asked_ms = 'status' in answer ? answer.retry_after_ms : null
  const next_ms =
    how === 'scheduled' ? retryDelayMs(config.WEBHOOK_RETRY_SCHEDULE_S, delivery.step + 1, asked_ms) : null
  const result = gone || how !== 'scheduled' ? 'failed' : next_ms === null ? 'exhausted' : 'again'
  const message = attempt.error ?? `answered ${status_code}`
  return failed(
    { code: 'delivery_failed', message },
    { tells: telling({ ...about, result, next_ms: result === 'again' ? next_ms : null }) },
  )
}

/** It ends without having been sent. */
function ended(
  delivery: LoadedDelivery,
  how: How,
  recovery_id: string | null,
  result: 'failed' | 'skipped' | 'exhausted',
): Decision {
  const about = { ...aboutOf(delivery, how, recovery_id), gone: false, attempt: null, next_ms: null }
  return done({ tells: telling({ ...about, result }) })
}

function telling(settlement: Told<DeliverySettlement>): Tells {
  const { result, attempt } = settlement
  return onceWritten(DELIVERY(settlement), () => {
    metrics.deliveryAttempts.inc({ result })
    addLogFacts({ status_code: attempt?.status_code ?? null, result })
  })
}

function aboutOf(
  { tenant_id, id, created_at, endpoint_id }: LoadedDelivery,
  how: How,
  recovery_id: string | null,
) {
  return { tenant_id, delivery_id: id, delivery_created_at: created_at, endpoint_id, how, recovery_id }
}
