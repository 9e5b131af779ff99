// Performs the jobs of payments: authorize, capture, cancel. Each makes one provider call and decides by its outcome.
import { moneyText } from '#core/money.ts'
import type { Failure, Outcome } from '#core/outcome.ts'
import { SealError } from '#core/secrets.ts'
import { findPaymentByIds } from '#domain/payments/find.ts'
import { paymentMethodPlace } from '#domain/payments/sealed.ts'
import type { PaymentTold } from '#domain/payments/settle.ts'
import { authorizePayment, cancelPayment, capturePayment } from '#jobs/payments.ts'
import type { ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../context.ts'
import { done, failed, retry, rotate, unanswered, undone, unknown, type Decision } from '../decision.ts'
import { NEVER_TOOK_EFFECT, sendingTimes, UNDOABLE, untilAbsent, wasSentHere } from './absence.ts'
import { mayHideAnEffect, MAX_GENERATIONS, neverSent, TOO_LATE, UNREACHABLE } from './calls.ts'
import { calling, type JobOf } from './handler.ts'
import { declineOf, paymentTold, settlingPayment } from './notifications/payments.ts'

type AuthorizeJob = JobOf<typeof authorizePayment>
type ChangeJob = JobOf<typeof capturePayment> | JobOf<typeof cancelPayment>
type PaymentFailure = NonNullable<PaymentTold['failure']>
type Refusal = { failure: PaymentFailure; reference?: string | null }

/** A call that begins so late may not be wanted any more. */
const LATE_MS = 60_000
/** A time whose payments are searched before they are listed. */
const LONG_S = 3600
const CANCELED = {
  code: 'payment_canceled',
  message: 'The payment was canceled before the processor was asked.',
} as const
const STILL_WORKING = 'the processor is still working on it'
/**
 * When an authorization that an earlier attempt may have made is refused, it is tried and looked up again this
 * long after the first refusal: the earlier attempt may still be on its way.
 */
const REFUSED_LOOKS_MS = [5_000, 60_000, 5 * 60_000]

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
  const { call } = job
  // No earlier attempt can have had an effect, so one that is canceled meanwhile needs no hold.
  const is_late = job.attempt > 1 || job.age_ms > LATE_MS
  if (is_late && !call.in_doubt && !call.look_only && (await isUnwanted(context, job)))
    return failed(CANCELED, { unsent: true, tells: aboutPayment({ ...nothing(job), status: 'canceled' }) })
  const sent: Outcome<ProcessorPayment> = call.look_only ? TOO_LATE : await send(context, job, call.key)
  // Sending again would repeat the stored answer "processing", so ask by the reference instead.
  if (sent.kind === 'done' && sent.value.status === 'processing')
    return await search(context, job, { reference: sent.value.reference })
  if (sent.kind === 'done') return tell(context, job, sent.value)
  if (mayHideAnEffect(call, sent)) {
    const says_why = sent.kind === 'declined' && sent.failure.code !== 'processor_error'
    return await search(context, job, says_why ? { refusal: sent } : {})
  }
  if (sent.kind === 'declined') return refused(job, sent)
  if (neverSent(call, sent)) return refused(job, { failure: UNREACHABLE })
  return undone(sent)
}

async function isUnwanted({ sql }: WorkerContext, { tenant_id, payload }: AuthorizeJob): Promise<boolean> {
  const payment = await findPaymentByIds(sql, { tenant_id, id: payload.payment_id }, null)
  return payment?.status === 'pending' && payment.cancel_requested_at !== null
}

// Sends the stored request with its secrets opened. When they cannot be opened, nothing is sent and the job waits.
async function send(
  { processor, vault }: WorkerContext,
  { tenant_id, id, call }: AuthorizeJob,
  key: string,
): Promise<Outcome<ProcessorPayment>> {
  const { sealed, payment_method: clear = null, ...request } = call.request
  try {
    const payment_method =
      sealed?.payment_method === undefined
        ? clear
        : vault.open(sealed.payment_method, paymentMethodPlace(tenant_id, id))
    return await processor.authorize({ ...request, payment_method }, key)
  } catch (error) {
    if (error instanceof SealError) return { kind: 'misconfigured', reason: error.message }
    throw error
  }
}

// Decides an authorization in doubt by the processor's own records. `reference`: its id there, if known; `refusal`:
// how this attempt was refused, if it was.
async function search(
  context: WorkerContext,
  job: AuthorizeJob,
  { reference = job.call.reference, refusal }: { reference?: string | null; refusal?: Refusal } = {},
): Promise<Decision> {
  const { payment_id } = job.payload
  const { processor } = context
  const is_last = refusal !== undefined && nextRefusedLook(job) === undefined
  const looked = await lookUp(context, job, reference, is_last)
  if (looked.kind !== 'done') return unanswered(looked, { unsent: refusal !== undefined })
  const found = looked.value
  if (found === null && refusal !== undefined) return refusedInDoubt(job, refusal)
  if (found === null && reference !== null) return unknown(`the processor does not know ${reference}`)
  if (found === null)
    return (await untilAbsent(context, job.sendings, processor, UNDOABLE)) ?? rotate(NEVER_TOOK_EFFECT)
  const { amount_minor, currency, payment_method, sealed } = job.call.request
  // An operator may have given the reference of another payment.
  const ours = (found.metadata['sluice_payment_id'] ?? payment_id) === payment_id
  if (!ours || found.amount_minor !== amount_minor || found.currency !== currency.toUpperCase())
    return unknown(`${found.reference} is another payment`)
  if (found.status === 'processing')
    return retry(STILL_WORKING, { reference: found.reference, answered: true })
  const by_card = payment_method != null || sealed?.payment_method !== undefined
  const declined = found.status === 'requires_action' && found.failure !== null
  // The card that we sent was declined. (A buyer who failed to authenticate may try again, so that is no refusal.)
  if (by_card && declined && found.failure?.may_retry !== true)
    return refused(job, { failure: declineOf(found) ?? UNREACHABLE, reference: found.reference })
  return tell(context, job, found)
}

// A list proves what it does not show; but all payments of a time are many, so it is read only when that decides, and a long
// time is searched before. A search lags, and its silence proves nothing.
async function lookUp(
  context: WorkerContext,
  job: AuthorizeJob,
  reference: string | null,
  is_last: boolean,
): Promise<Outcome<ProcessorPayment | null>> {
  const { processor } = context
  const { payment_id } = job.payload
  if (reference !== null) return await processor.findPayment(reference)
  const times = await sendingTimes(context, job)
  const is_ours = await wasSentHere(context, job.sendings, processor)
  const decides =
    is_ours && (is_last || (await untilAbsent(context, job.sendings, processor, UNDOABLE)) === undefined)
  if (decides && times.to_s - times.from_s <= LONG_S)
    return await processor.listPayment({ payment_id, ...times })
  const searched = await processor.searchPayment(payment_id)
  if (!is_ours || (searched.kind === 'done' && searched.value !== null)) return searched
  // What the search cannot say now, the list will.
  return decides ? await processor.listPayment({ payment_id, ...times }) : { kind: 'done', value: null }
}

// Refused now, while an earlier attempt may have succeeded that the processor does not show yet: tried again with the
// same key until it must have shown it.
function refusedInDoubt(job: AuthorizeJob, refusal: Refusal): Decision {
  const refused_ms = job.call.refused_ms ?? 0
  const look_ms = nextRefusedLook(job)
  if (look_ms === undefined) return refused(job, refusal)
  return retry(refusal.failure.message, { delay_ms: look_ms - refused_ms, unsent: true, answered: true })
}

function nextRefusedLook({ call }: AuthorizeJob): number | undefined {
  return REFUSED_LOOKS_MS.find((each) => each > (call.refused_ms ?? 0))
}

// The authorization failed for good. `reference` is null when the processor has no object of it.
function refused(job: AuthorizeJob, { failure, reference = null }: Refusal): Decision {
  const told: PaymentTold = { ...nothing(job), processor_reference: reference, failure: shown(failure) }
  return failed(reasonOf(failure), { reference, tells: aboutPayment(told) })
}

/** What is told of a payment that the processor has not. */
function nothing(job: AuthorizeJob): PaymentTold {
  return {
    ...idsOf(job),
    status: 'failed',
    failed_operation: null,
    processor_reference: null,
    amount_capturable_minor: null,
    amount_captured_minor: null,
    client_secret: null,
    capture_before: null,
    cancellation_reason: null,
    failure: null,
  }
}

// Capture and cancel change a payment that the processor knows, so after a refusal or in doubt its state at the
// processor decides.
async function change(
  context: WorkerContext,
  job: ChangeJob,
  wanted: 'captured' | 'canceled',
  send: (key: string) => Promise<Outcome<ProcessorPayment>>,
): Promise<Decision> {
  const { call } = job
  const { reference } = call.request
  const sent: Outcome<ProcessorPayment> = call.look_only ? TOO_LATE : await send(call.key)
  if (sent.kind === 'done' && sent.value.status === wanted)
    return tell(context, job, sent.value, capturedOtherwise(job, sent.value))
  const never_sent = neverSent(call, sent)
  const doubtful =
    sent.kind === 'done' || sent.kind === 'declined' || (sent.kind === 'ambiguous' && sent.replayed)
  if (!doubtful && !never_sent) return undone(sent)

  const looked = await context.processor.findPayment(reference)
  if (looked.kind !== 'done') return unanswered(looked, { unsent: never_sent })
  const found = looked.value
  if (found === null) return unknown(`the processor does not know ${reference}`)
  if (found.status === wanted) return tell(context, job, found, capturedOtherwise(job, found))
  if (found.status === 'captured' || found.status === 'canceled') {
    const code = wanted === 'captured' ? 'payment_not_capturable' : 'payment_not_cancelable'
    return tell(context, job, found, { code, message: `The payment is ${found.status} at the processor.` })
  }
  const told = paymentTold(context, idsOf(job), found)
  if (told === undefined) return retry(STILL_WORKING, { answered: true })
  // The payment is unchanged there. The processor would repeat the stored error of this key for ever, so only a new
  // key helps.
  if (sent.kind === 'ambiguous' && call.generation < MAX_GENERATIONS) return rotate(sent.reason)
  const failure = sent.kind === 'declined' ? sent.failure : UNREACHABLE
  const failed_operation = wanted === 'captured' ? 'capture' : 'cancel'
  return failed(failure, { tells: aboutPayment({ ...told, failed_operation, failure: shown(failure) }) })
}

/** Why a capture failed although the payment is captured: somebody else captured another amount of it. */
function capturedOtherwise(
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

// Ends the job, as failed if there is a `failure`. Either way the payment becomes what the processor says.
function tell(
  context: WorkerContext,
  job: AuthorizeJob | ChangeJob,
  payment: ProcessorPayment,
  failure?: PaymentFailure,
): Decision {
  const told = paymentTold(context, idsOf(job), payment)
  const learnt = { reference: payment.reference, tells: told && aboutPayment(told) }
  return failure === undefined ? done(learnt) : failed(reasonOf(failure), learnt)
}

const aboutPayment = (told: PaymentTold) => settlingPayment({ told, notification_id: null })

function reasonOf({ decline_code, ...failure }: PaymentFailure) {
  return { ...failure, ...(decline_code != null && { decline_code }) }
}

function shown({ code, message, decline_code }: PaymentFailure): PaymentFailure {
  return { code, message, decline_code: decline_code ?? null }
}

function idsOf({ tenant_id, payload }: AuthorizeJob | ChangeJob) {
  return { tenant_id, payment_id: payload.payment_id }
}
