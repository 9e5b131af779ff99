// Performs what payments ask for: authorize, capture, cancel. Load, one provider call, settle.
import type { Outcome } from '#core/outcome.ts'
import { SealError } from '#core/secrets.ts'
import type { ClaimedJob, Settlement } from '#domain/jobs.ts'
import { clientSecretPlace, paymentMethodPlace } from '#domain/payments/sealed.ts'
import type { PaymentTold } from '#domain/payments/settle.ts'
import type {
  AuthorizeRequest,
  CancelRequest,
  CaptureRequest,
  ProcessorPayment,
} from '#providers/processor.ts'
import type { PayloadOf } from '#jobs/index.ts'
import type { WorkerContext } from './context.ts'
import { failed, retried, rotated, succeeded, unfinished, unknown } from './settlement.ts'

type PaymentJob = ClaimedJob & { payload: PayloadOf<'payment.capture'> }
type StoredAuthorizeRequest = Omit<AuthorizeRequest, 'payment_method'> & {
  payment_method?: string | null
  sealed?: { payment_method?: string }
}
type Failure = NonNullable<PaymentTold['failure']>

/** Authorizes a new payment at the processor. */
export async function authorizePayment(context: WorkerContext, job: PaymentJob): Promise<Settlement> {
  const { key, look_only } = job.call!
  const sent: Outcome<ProcessorPayment> = look_only
    ? { kind: 'ambiguous', reason: 'too late to send again', replayed: true }
    : await authorize(context, job, key)
  if (sent.kind === 'done') return await settleTold(context, job, succeeded(job), sent.value)
  // The stored answer of this key tells nothing, nor does the refusal of a key that went out before with other
  // parameters; only the processor's own books can.
  const doubtful =
    (sent.kind === 'ambiguous' && sent.replayed) ||
    (sent.kind === 'declined' && sent.failure.code === 'processor_error' && job.attempt > 1)
  if (doubtful) {
    const looked = await context.processor.searchPayment(job.payload.payment_id)
    if (looked.kind !== 'done') return await settleJob(context, lookFailed(job, looked))
    if (looked.value !== null) return await settleTold(context, job, succeeded(job), looked.value)
    return await settleJob(
      context,
      unknown(job, 'the processor has not shown the payment yet; it may still exist'),
    )
  }
  if (sent.kind === 'declined') return await settleFailure(context, job, 'failed', sent.failure)
  const settlement = await unfinished(context.sql, job, sent)
  return settlement === 'never sent'
    ? await settleFailure(context, job, 'failed', {
        code: 'processor_error',
        message: 'the processor could not be reached',
      })
    : await settleJob(context, settlement)
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
  const sent: Outcome<ProcessorPayment> = job.call!.look_only
    ? { kind: 'ambiguous', reason: 'too late to send again', replayed: true }
    : await send(job.call!.key)
  if (sent.kind === 'done' && sent.value.status === wanted)
    return await settleTold(context, job, succeeded(job), sent.value)
  const doubtful =
    sent.kind === 'done' || sent.kind === 'declined' || (sent.kind === 'ambiguous' && sent.replayed)
  const pending = doubtful ? 'never sent' : await unfinished(context.sql, job, sent)
  if (pending !== 'never sent') return await settleJob(context, pending)

  const looked = await context.processor.findPayment(reference)
  if (looked.kind !== 'done') return await settleJob(context, lookFailed(job, looked))
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
  // It stands untouched. A stored error of this key would be repeated for ever: only a new key can get through.
  if (sent.kind === 'ambiguous' && job.attempt < job.max_attempts)
    return await settleJob(context, rotated(job, sent.reason))
  const failure =
    sent.kind === 'declined'
      ? sent.failure
      : { code: 'processor_error', message: 'the processor could not be reached' }
  return await settleFailure(
    context,
    job,
    found.status === 'authorized' ? 'still_authorized' : 'still_requires_action',
    failure,
  )
}

/** A look that brought no answer: nothing was written anywhere, so it is simply tried again, as a look or as a call. */
export function lookFailed(job: ClaimedJob, looked: Exclude<Outcome<unknown>, { kind: 'done' }>): Settlement {
  const reason = looked.kind === 'declined' ? looked.failure.message : looked.reason
  return job.call?.look_only === true || job.attempt >= job.max_attempts
    ? unknown(job, reason)
    : retried(job, reason)
}

/** The processor's payment in our words; undefined while it is still working on it and a notification will tell. */
export function toldOf(
  context: WorkerContext,
  of: { tenant_id: string; payment_id: string },
  payment: ProcessorPayment,
): PaymentTold | undefined {
  if (payment.status === 'processing') return undefined
  return {
    tenant_id: of.tenant_id,
    payment_id: of.payment_id,
    status: payment.status,
    processor_reference: payment.reference,
    amount_capturable_minor: payment.amount_capturable_minor,
    amount_captured_minor: payment.amount_captured_minor,
    client_secret:
      payment.client_secret === null || payment.status !== 'requires_action'
        ? null
        : context.vault.seal(payment.client_secret, clientSecretPlace(of.tenant_id, of.payment_id)),
    capture_before: payment.capture_before,
    cancellation_reason: payment.cancellation_reason,
    failure: payment.status === 'failed' ? payment.failure : null,
  }
}

async function settleTold(
  context: WorkerContext,
  job: PaymentJob,
  settlement: Settlement,
  payment: ProcessorPayment,
): Promise<Settlement> {
  const told = toldOf(context, { tenant_id: job.tenant_id, payment_id: job.payload.payment_id }, payment)
  const whole = { ...settlement, provider_reference: payment.reference }
  if (told === undefined) return await settleJob(context, whole)
  return fencedUnless(await context.settle.payment({ ...whole, told, notification_id: null }), whole)
}

async function settleFailure(
  context: WorkerContext,
  job: PaymentJob,
  status: 'failed' | 'still_authorized' | 'still_requires_action',
  failure: Failure,
): Promise<Settlement> {
  const settlement = failed(job, { ...failure, decline_code: failure.decline_code ?? undefined })
  const told: PaymentTold = {
    tenant_id: job.tenant_id,
    payment_id: job.payload.payment_id,
    status,
    processor_reference: null,
    amount_capturable_minor: null,
    amount_captured_minor: null,
    client_secret: null,
    capture_before: null,
    cancellation_reason: null,
    failure: { code: failure.code, message: failure.message, decline_code: failure.decline_code ?? null },
  }
  return fencedUnless(
    await context.settle.payment({ ...settlement, told, notification_id: null }),
    settlement,
  )
}

async function settleJob(context: WorkerContext, settlement: Settlement): Promise<Settlement> {
  return fencedUnless(await context.settle.job(settlement), settlement)
}

/** A handler answers what it settled, marked when the fence turned it away. */
export function fencedUnless(ours: boolean, settlement: Settlement): Settlement {
  return ours ? settlement : { ...settlement, outcome: 'fenced' }
}
