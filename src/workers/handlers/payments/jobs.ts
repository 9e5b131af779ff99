// Performs the jobs of payments: authorize, capture, cancel.
import { moneyText } from '#core/money.ts'
import type { Failure, Outcome } from '#core/outcome.ts'
import { findPaymentByIds } from '#domain/payments/find.ts'
import { paymentMethodContext } from '#domain/payments/sealed.ts'
import { emptyPaymentUpdate, type PaymentUpdate } from '#domain/payments/settle.ts'
import { authorizePayment, cancelPayment, capturePayment } from '#jobs/payments.ts'
import type { ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, retry, retryUndone, unknown, type Decision } from '../../decision.ts'
import { REVERSIBLE, sendingRange } from '../absence.ts'
import {
  UNREACHABLE,
  isProviderRefusal,
  isReplayedError,
  neverSent,
  outcomeOfSealError,
  sendUnlessLookupOnly,
} from '../calls.ts'
import { changeAtProvider, MAX_GENERATIONS } from '../change.ts'
import { createAtProvider, resendUnderNewKey } from '../create.ts'
import { calling, type JobOf } from '../handler.ts'
import { adoptPayment, declineOf, paymentUpdate, settlingPayment } from './effects.ts'

type AuthorizeJob = JobOf<typeof authorizePayment>
type ChangeJob = JobOf<typeof capturePayment> | JobOf<typeof cancelPayment>
type PaymentFailure = NonNullable<PaymentUpdate['failure']>

/** If the job is older than this, the payment may have been canceled before the call, so its row is checked first. */
const LATE_START_MS = 60_000
/**
 * The longest time range whose list is read at once. The list of a longer range is read only after a search has found
 * nothing.
 */
const MAX_LISTED_S = 3600
const CANCELED = {
  code: 'payment_canceled',
  message: 'The payment was canceled before the call to the processor.',
} as const
const KEY_REUSED = {
  code: 'idempotency_key_reused',
  message: 'The idempotency key was used before with other content.',
} as const
const UNKNOWN_PAYMENT = 'The processor of test mode does not know the payment any more.'
const STILL_PROCESSING = 'the processor is still processing the payment'

export const paymentHandlers = {
  [authorizePayment.name]: calling(authorizePayment, authorize),
  [capturePayment.name]: calling(capturePayment, (context, job) =>
    change(context, job, 'captured', (key) => context.processor.capture(job.call.request, key)),
  ),
  [cancelPayment.name]: calling(cancelPayment, (context, job) =>
    change(context, job, 'canceled', (key) => context.processor.cancel(job.call.request, key)),
  ),
}

/** Authorizes a new payment at the processor. */
async function authorize(context: WorkerContext, job: AuthorizeJob): Promise<Decision> {
  const { sql, processor } = context
  const { tenant_id, call } = job
  const { payment_id } = job.payload
  // A canceled payment needs no hold. Its row is checked only for a late start, and only if no earlier attempt can have
  // taken effect.
  const is_late = job.attempt > 1 || job.age_ms > LATE_START_MS
  if (is_late && !call.in_doubt && (await isUnwanted(context, job)))
    return failed(CANCELED, {
      unsent: true,
      effects: paymentEffects({ ...emptyPaymentUpdate, ...idsOf(job), status: 'canceled' }),
    })
  const { amount_minor, currency } = call.request
  return await createAtProvider<ProcessorPayment>(context, job, {
    row: { tenant_id, resource: 'payment', id: payment_id },
    provider: processor,
    absence: REVERSIBLE,
    send: (key) => send(context, job, key),
    isUndecided: ({ status }) => status === 'processing',
    findReference: async () =>
      (await findPaymentByIds(sql, { tenant_id, id: payment_id }, null))?.processor_reference ?? null,
    find: (reference) => processor.findPayment(reference),
    search: (needed) => search(context, job, needed),
    matchesRequest: (found) =>
      (found.metadata['sluice_payment_id'] ?? payment_id) === payment_id &&
      found.amount_minor === amount_minor &&
      found.currency === currency.toUpperCase(),
    // An operator may have entered the reference of another payment.
    onMismatch: async ({ reference }) => unknown(`${reference} is another payment`),
    created: (found) => authorized(context, job, found),
    adopt: (found) => adoptPayment(context, { ...idsOf(job), requested: call.request.metadata }, found),
    refused: (failure, reference) => refused(job, failure, reference),
    absent: resendUnderNewKey,
    unreachable: UNREACHABLE,
    unsent: null,
  })
}

async function isUnwanted({ sql }: WorkerContext, { tenant_id, payload }: AuthorizeJob): Promise<boolean> {
  const payment = await findPaymentByIds(sql, { tenant_id, id: payload.payment_id }, null)
  return payment?.status === 'pending' && payment.cancel_requested_at !== null
}

// Sends the stored request with its secrets opened. If they cannot be opened, nothing is sent and the job waits.
async function send(
  { processor, vault }: WorkerContext,
  { tenant_id, id, call }: AuthorizeJob,
  key: string,
): Promise<Outcome<ProcessorPayment>> {
  const { sealed, ...request } = call.request
  try {
    const payment_method =
      sealed?.payment_method === undefined
        ? null
        : vault.open(sealed.payment_method, paymentMethodContext(tenant_id, id))
    return await processor.authorize({ ...request, payment_method }, key)
  } catch (error) {
    return outcomeOfSealError(error)
  }
}

// Only a list proves an absence, but a time range may have many payments. So the list is read only if it decides, and a
// long range is searched first. The search is updated with a delay, so an empty search proves nothing.
async function search(
  context: WorkerContext,
  job: AuthorizeJob,
  { proves, decides }: { proves: boolean; decides: boolean },
): Promise<Outcome<ProcessorPayment | null>> {
  const { processor } = context
  const { payment_id } = job.payload
  const times = await sendingRange(context, job)
  if (decides && times.to_s - times.from_s <= MAX_LISTED_S)
    return await processor.listPayment({ payment_id, ...times })
  const searched = await processor.searchPayment(payment_id)
  if (!proves || (searched.kind === 'done' && searched.value !== null)) return searched
  // The search found nothing, so the list decides.
  return decides ? await processor.listPayment({ payment_id, ...times }) : { kind: 'done', value: null }
}

// Decides by the processor's record of this authorization.
function authorized(context: WorkerContext, job: AuthorizeJob, found: ProcessorPayment): Decision {
  if (found.status === 'processing')
    return retry(STILL_PROCESSING, { reference: found.reference, answered: true })
  const { sealed } = job.call.request
  const by_card = sealed?.payment_method !== undefined
  const declined = found.status === 'requires_action' && found.failure !== null
  // The card was declined. A buyer who failed to authenticate may try again, so that is not a refusal.
  if (by_card && declined && found.failure?.may_retry !== true)
    return refused(job, declineOf(found) ?? UNREACHABLE, found.reference)
  return decideByReport(context, job, found)
}

// Settles an authorization that failed definitively. `reference`: null if the processor has no object of the payment.
function refused(job: AuthorizeJob, failure: PaymentFailure, reference: string | null): Decision {
  const update: PaymentUpdate = {
    ...emptyPaymentUpdate,
    ...idsOf(job),
    status: 'failed',
    processor_reference: reference,
    failure: storedFailure(failure),
  }
  return failed(reasonOf(failure), { reference, effects: paymentEffects(update) })
}

/** Captures or cancels an authorized payment. */
async function change(
  context: WorkerContext,
  job: ChangeJob,
  wanted: 'captured' | 'canceled',
  send: (key: string) => Promise<Outcome<ProcessorPayment>>,
): Promise<Decision> {
  if (job.payload.confirms === true) return await confirm(context, job, wanted, send)
  const { reference } = job.call.request
  return await changeAtProvider<ProcessorPayment>(context, job, {
    reference,
    max_generations: MAX_GENERATIONS,
    send,
    find: () => context.processor.findPayment(reference),
    changed: (found) =>
      found.status === wanted ? decideByReport(context, job, found, captureMismatch(job, found)) : null,
    otherwise: (found) => {
      if (found.status === 'processing') return retry(STILL_PROCESSING, { answered: true })
      if (found.status !== 'captured' && found.status !== 'canceled') return null
      const code = wanted === 'captured' ? 'payment_not_capturable' : 'payment_not_cancelable'
      return decideByReport(context, job, found, {
        code,
        message: `The payment is ${found.status} at the processor.`,
      })
    },
    unchanged: (found, refusal) => {
      const failure = refusal ?? UNREACHABLE
      const failed_operation = wanted === 'captured' ? 'capture' : 'cancel'
      const update = paymentUpdate(context, idsOf(job), found)
      return failed(failure, {
        effects: update && paymentEffects({ ...update, failed_operation, failure: storedFailure(failure) }),
      })
    },
    // Nobody holds its amount.
    missing: () => {
      const effects = paymentEffects({ ...emptyPaymentUpdate, ...idsOf(job), status: 'canceled' })
      return wanted === 'canceled'
        ? done({ reference, effects })
        : failed({ code: 'payment_not_capturable', message: UNKNOWN_PAYMENT }, { reference, effects })
    },
  })
}

/**
 * Decides whether an earlier request, which the database lost, had the effect that the payment shows: the processor
 * knows the key then, and repeats its answer, even if that was an error.
 */
async function confirm(
  { sql }: WorkerContext,
  job: ChangeJob,
  wanted: 'captured' | 'canceled',
  send: (key: string) => Promise<Outcome<ProcessorPayment>>,
): Promise<Decision> {
  const { call } = job
  const sent = await sendUnlessLookupOnly(call, send)
  const repeated_error = isReplayedError(sent) && !call.in_doubt && !call.lookup_only
  if (repeated_error || (sent.kind === 'done' && sent.value.status === wanted))
    return done({ reference: call.request.reference })
  if (sent.kind === 'declined' && !isProviderRefusal(sent)) return failed(KEY_REUSED)
  if (neverSent(call, sent)) return failed(UNREACHABLE)
  if (sent.kind !== 'done' && sent.kind !== 'declined' && !isReplayedError(sent)) return retryUndone(sent)
  const { tenant_id, payment_id } = idsOf(job)
  const payment = await findPaymentByIds(sql, { tenant_id, id: payment_id }, null)
  const { amount_captured_minor = 0, currency = '' } = payment ?? {}
  return wanted === 'captured'
    ? failed({
        code: 'payment_not_capturable',
        message: `The payment cannot be captured: ${moneyText(amount_captured_minor, currency)} is already captured.`,
        context: { amount_captured_minor, currency },
      })
    : failed({
        code: 'payment_not_cancelable',
        message: 'The payment cannot be canceled: it is canceled.',
      })
}

/** The failure of a capture if the payment was captured outside of Sluice, with another amount. */
function captureMismatch(
  { call: { request } }: ChangeJob,
  { amount_captured_minor, currency }: ProcessorPayment,
): Failure | undefined {
  if (!('amount_minor' in request) || request.amount_minor === amount_captured_minor) return undefined
  const money = (some: number) => moneyText(some, currency)
  return {
    code: 'payment_not_capturable',
    message: `The payment was captured at the processor with ${money(amount_captured_minor)}, not ${money(request.amount_minor)}.`,
    context: { amount_captured_minor, currency },
  }
}

// Settles the payment with the processor's state, and ends the job: as failed if there is a `failure`.
function decideByReport(
  context: WorkerContext,
  job: AuthorizeJob | ChangeJob,
  payment: ProcessorPayment,
  failure?: PaymentFailure,
): Decision {
  const update = paymentUpdate(context, idsOf(job), payment)
  const result = { reference: payment.reference, effects: update && paymentEffects(update) }
  return failure === undefined ? done(result) : failed(reasonOf(failure), result)
}

const paymentEffects = (update: PaymentUpdate) => settlingPayment({ update, notification_id: null })

function reasonOf({ decline_code, ...failure }: PaymentFailure) {
  return { ...failure, ...(decline_code != null && { decline_code }) }
}

function storedFailure({ code, message, decline_code }: PaymentFailure): PaymentFailure {
  return { code, message, decline_code: decline_code ?? null }
}

function idsOf({ tenant_id, payload }: AuthorizeJob | ChangeJob) {
  return { tenant_id, payment_id: payload.payment_id }
}
