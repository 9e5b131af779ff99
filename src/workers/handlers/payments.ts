// Performs what payments ask for: authorize, capture, cancel. Load, one provider call, settle.
import type { Outcome } from '#core/outcome.ts'
import { SealError } from '#core/secrets.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { clientSecretPlace, paymentMethodPlace } from '#domain/payments/sealed.ts'
import type { PaymentTold } from '#domain/payments/settle.ts'
import type {
  AuthorizeRequest,
  CancelRequest,
  CaptureRequest,
  ProcessorPayment,
} from '#providers/payments.ts'
import type { PayloadOf } from '#jobs/index.ts'
import type { WorkerContext } from '../context.ts'
import {
  failed,
  refusedInDoubt,
  retried,
  rotated,
  succeeded,
  unanswered,
  unfinished,
  unknown,
} from '../settlement.ts'

type PaymentJob = ClaimedJob & { payload: PayloadOf<'payment.capture'> }
type StoredAuthorizeRequest = Omit<AuthorizeRequest, 'payment_method'> & {
  payment_method?: string | null
  sealed?: { payment_method?: string }
}
type Failure = NonNullable<PaymentTold['failure']>

/** In place of a call that may only be looked up. */
export const TOO_LATE = { kind: 'ambiguous', reason: 'too late to send again', replayed: true } as const
export const UNREACHABLE = { code: 'processor_error', message: 'the processor could not be reached' } as const
const STILL_WORKING = 'the processor is still working on it'
/** Each key that is used up by a stored error costs two calls. */
const MAX_GENERATIONS = 12

/** Authorizes a new payment at the processor. */
export async function authorizePayment(context: WorkerContext, job: PaymentJob): Promise<Settlement> {
  const { key, look_only, in_doubt } = job.call!
  const sent: Outcome<ProcessorPayment> = look_only ? TOO_LATE : await authorize(context, job, key)
  // While the processor works on it, the stored answer of this key goes on saying so: it is asked by its reference.
  if (sent.kind === 'done' && sent.value.status === 'processing')
    return await settleSearched(context, job, { reference: sent.value.reference })
  if (sent.kind === 'done') return await settleTold(context, job, succeeded(job), sent.value)
  // The stored answer of this key tells nothing, nor does a refusal after an attempt that may have authorized, or of a key
  // that went out before with other parameters; only the processor's own books can.
  if (sent.kind === 'ambiguous' && sent.replayed) return await settleSearched(context, job)
  if (sent.kind === 'declined' && sent.failure.code === 'processor_error')
    return await settleSearched(context, job)
  if (sent.kind === 'declined' && in_doubt) return await settleSearched(context, job, { refusal: sent })
  if (sent.kind === 'declined') return await settleFailure(context, job, sent.failure, sent.reference ?? null)
  const settlement = unfinished(job, sent)
  return settlement === 'never sent'
    ? await settleFailure(context, job, UNREACHABLE, null)
    : await settleJob(context, settlement)
}

// What the processor's own books say of an authorization in doubt. `reference`: what it is called there; `refusal`: how it was
// refused this time.
async function settleSearched(
  context: WorkerContext,
  job: PaymentJob,
  {
    reference = job.call!.reference,
    refusal,
  }: { reference?: string | null; refusal?: { failure: Failure; reference?: string } } = {},
): Promise<Settlement> {
  const { request } = job.call!
  const { payment_id } = job.payload
  const looked =
    reference === null
      ? await context.processor.searchPayment(payment_id)
      : await context.processor.findPayment(reference)
  if (looked.kind !== 'done')
    return await settleJob(context, { ...unanswered(job, looked), unsent: refusal !== undefined })
  const found = looked.value
  if (found === null && refusal !== undefined) {
    const settlement = refusedInDoubt(job, refusal.failure.message)
    return settlement === 'never got in'
      ? await settleFailure(context, job, refusal.failure, refusal.reference ?? null)
      : await settleJob(context, settlement)
  }
  if (found === null)
    return await settleJob(
      context,
      unknown(job, 'the processor has not shown the payment yet; it may still exist'),
    )
  const { amount_minor, currency, payment_method, sealed } = request as StoredAuthorizeRequest
  // A person may have named another one.
  const ours = (found.metadata['sluice_payment_id'] ?? payment_id) === payment_id
  if (!ours || found.amount_minor !== amount_minor || found.currency !== currency.toUpperCase())
    return await settleJob(context, unknown(job, `${found.reference} is another payment`))
  if (found.status === 'processing')
    return await settleJob(context, {
      ...lookAgain(job, STILL_WORKING),
      provider_reference: found.reference,
    })
  const by_card = payment_method != null || sealed?.payment_method !== undefined
  const refused = found.status === 'requires_action' && found.failure !== null
  // The card that we sent was declined. Who fails to authenticate may try again.
  if (by_card && refused && found.failure?.may_retry !== true)
    return await settleFailure(context, job, failureOf(found) ?? UNREACHABLE, found.reference)
  return await settleTold(context, job, succeeded(job), found)
}

// The stored request with its secrets opened; where they cannot be, nothing is sent, and nothing is lost either.
async function authorize(
  { processor, vault }: WorkerContext,
  { tenant_id, id, call }: PaymentJob,
  key: string,
): Promise<Outcome<ProcessorPayment>> {
  // A row of an earlier version has its token in the clear.
  const { sealed, payment_method: clear = null, ...request } = call!.request as StoredAuthorizeRequest
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

/** Captures a hold. */
export async function capturePayment(context: WorkerContext, job: PaymentJob): Promise<Settlement> {
  const request = job.call!.request as CaptureRequest
  return await change(context, job, 'captured', request.reference, (key) =>
    context.processor.capture(request, key),
  )
}

/** Voids a hold, or gives up a payment that the buyer has not completed. */
export async function cancelPayment(context: WorkerContext, job: PaymentJob): Promise<Settlement> {
  const request = job.call!.request as CancelRequest
  return await change(context, job, 'canceled', request.reference, (key) =>
    context.processor.cancel(request, key),
  )
}

// Capture and cancel change a payment that the processor knows, so after any doubt or refusal its own state decides.
async function change(
  context: WorkerContext,
  job: PaymentJob,
  wanted: 'captured' | 'canceled',
  reference: string,
  send: (key: string) => Promise<Outcome<ProcessorPayment>>,
): Promise<Settlement> {
  const { key, look_only, generation } = job.call!
  const sent: Outcome<ProcessorPayment> = look_only ? TOO_LATE : await send(key)
  if (sent.kind === 'done' && sent.value.status === wanted)
    return await settleTold(context, job, succeeded(job), sent.value)
  const doubtful =
    sent.kind === 'done' || sent.kind === 'declined' || (sent.kind === 'ambiguous' && sent.replayed)
  const pending = doubtful ? null : unfinished(job, sent)
  if (pending !== null && pending !== 'never sent') return await settleJob(context, pending)

  const looked = await context.processor.findPayment(reference)
  if (looked.kind !== 'done')
    return await settleJob(context, { ...unanswered(job, looked), unsent: pending === 'never sent' })
  const found = looked.value
  if (found === null) {
    return await settleJob(context, unknown(job, `the processor does not know ${reference}`))
  }
  if (found.status === wanted) return await settleTold(context, job, succeeded(job), found)
  if (found.status === 'captured' || found.status === 'canceled') {
    const code = wanted === 'captured' ? 'payment_not_capturable' : 'payment_not_cancelable'
    const failure = { code, message: `The payment is ${found.status} at the processor.` }
    return await settleTold(context, job, failed(job, failure), found)
  }
  const told = toldOf(context, of(job), found)
  if (told === undefined) return await settleJob(context, lookAgain(job, STILL_WORKING))
  // It stands untouched. A stored error of this key would be repeated for ever: only a new key can get through.
  if (sent.kind === 'ambiguous' && generation < MAX_GENERATIONS)
    return await settleJob(context, rotated(job, sent.reason))
  const failure = sent.kind === 'declined' ? sent.failure : UNREACHABLE
  return await settlePayment(context, failed(job, failure), {
    ...told,
    failed_operation: wanted === 'captured' ? 'capture' : 'cancel',
    failure: shown(failure),
  })
}

function lookAgain(job: ClaimedJob, reason: string): Settlement {
  return job.call?.look_only === true ? unknown(job, reason) : retried(job, reason)
}

/** The processor's payment in our words; undefined while it is still working on it and a notification will tell. */
export function toldOf(
  context: WorkerContext,
  { tenant_id, payment_id }: { tenant_id: string; payment_id: string },
  payment: ProcessorPayment,
): PaymentTold | undefined {
  if (payment.status === 'processing') return undefined
  const waits = payment.status === 'requires_action'
  return {
    tenant_id,
    payment_id,
    status: payment.status,
    failed_operation: null,
    processor_reference: payment.reference,
    amount_capturable_minor: payment.amount_capturable_minor,
    amount_captured_minor: payment.amount_captured_minor,
    client_secret:
      payment.client_secret === null || !waits
        ? null
        : context.vault.seal(payment.client_secret, clientSecretPlace(tenant_id, payment_id)),
    capture_before: payment.capture_before,
    cancellation_reason: payment.cancellation_reason,
    // What has succeeded or was given up has no more failure, whatever was tried before.
    failure: waits || payment.status === 'failed' ? failureOf(payment) : null,
  }
}

function failureOf({ failure }: ProcessorPayment): Failure | null {
  if (failure === null) return null
  const { code, message, decline_code } = failure
  return { code: 'payment_declined', message, decline_code: decline_code ?? code }
}

function shown({ code, message, decline_code }: Failure): Failure {
  return { code, message, decline_code: decline_code ?? null }
}

async function settleTold(
  context: WorkerContext,
  job: PaymentJob,
  settlement: Settlement,
  payment: ProcessorPayment,
): Promise<Settlement> {
  const told = toldOf(context, of(job), payment)
  const whole = { ...settlement, provider_reference: payment.reference }
  return told === undefined ? await settleJob(context, whole) : await settlePayment(context, whole, told)
}

// The authorization failed for good. Of what was never sent the processor has no reference.
async function settleFailure(
  context: WorkerContext,
  job: PaymentJob,
  failure: Failure,
  reference: string | null,
): Promise<Settlement> {
  const { decline_code, ...rest } = failure
  const settlement = failed(job, { ...rest, ...(decline_code != null && { decline_code }) })
  return await settlePayment(
    context,
    { ...settlement, provider_reference: reference },
    {
      ...of(job),
      status: 'failed',
      failed_operation: null,
      processor_reference: reference,
      amount_capturable_minor: null,
      amount_captured_minor: null,
      client_secret: null,
      capture_before: null,
      cancellation_reason: null,
      failure: shown(failure),
    },
  )
}

async function settlePayment(
  context: WorkerContext,
  settlement: Settlement,
  told: PaymentTold,
): Promise<Settlement> {
  return fencedUnless(
    await context.settle.payment({ ...settlement, told, notification_id: null }),
    settlement,
  )
}

/** Settles what changes nothing but the job. */
export async function settleJob(context: WorkerContext, settlement: Settlement): Promise<Settlement> {
  return fencedUnless(await context.settle.job(settlement), settlement)
}

/** A handler answers what it settled, marked when the fence turned it away. */
export function fencedUnless(ours: boolean, settlement: Settlement): Settlement {
  return ours ? settlement : { ...settlement, outcome: 'fenced' }
}

function of(job: PaymentJob) {
  return { tenant_id: job.tenant_id, payment_id: job.payload.payment_id }
}
