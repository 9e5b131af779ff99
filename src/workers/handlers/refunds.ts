// Performs refunds: one provider call, or a look where sending again could refund twice.
import type { Outcome } from '#core/outcome.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import type { RefundTold } from '#domain/refunds/settle.ts'
import type { ProcessorRefund, RefundRequest } from '#providers/payments.ts'
import type { PayloadOf } from '#jobs/index.ts'
import type { WorkerContext } from '../context.ts'
import { fencedUnless, settleJob, TOO_LATE, UNREACHABLE } from './payments.ts'
import { failed, succeeded, unanswered, unfinished, unknown } from '../settlement.ts'

type RefundJob = ClaimedJob & { payload: PayloadOf<'refund.create'> }

/** Refunds a captured payment at the processor. */
export async function createRefund(context: WorkerContext, job: RefundJob): Promise<Settlement> {
  const { key, look_only, in_doubt } = job.call!
  const request = job.call!.request as RefundRequest
  const sent: Outcome<ProcessorRefund> = look_only ? TOO_LATE : await context.processor.refund(request, key)
  if (sent.kind === 'done') return await settleRefund(context, job, succeeded(job), sent.value)

  // A refusal after an earlier attempt, or a stored error, may hide a refund that went through.
  const doubtful = (sent.kind === 'declined' && in_doubt) || (sent.kind === 'ambiguous' && sent.replayed)
  if (doubtful) {
    const looked = await look(context, job, request)
    if (looked.kind !== 'done') return await settleJob(context, unanswered(job, looked))
    const found = looked.value
    if (found !== null && !isOurs(found, request))
      return await settleJob(context, unknown(job, `${found.reference} is another refund`))
    if (found !== null) return await settleRefund(context, job, succeeded(job), found)
    if (sent.kind === 'ambiguous')
      return await settleJob(
        context,
        unknown(job, 'the processor has not shown the refund yet; it may still exist'),
      )
  }
  const settlement = sent.kind === 'declined' ? 'never sent' : unfinished(job, sent)
  if (settlement !== 'never sent') return await settleJob(context, settlement)
  const failure = sent.kind === 'declined' ? sent.failure : UNREACHABLE
  const told: RefundTold = {
    ...ids(job),
    status: 'failed',
    processor_reference: null,
    failure: { code: failure.code, message: failure.message },
  }
  const given = failed(job, failure)
  return fencedUnless(await context.settle.refund({ ...given, told, notification_id: null }), given)
}

// By the name that somebody gave, else by our own id among the refunds of the payment.
async function look({ processor }: WorkerContext, job: RefundJob, request: RefundRequest) {
  const { reference } = job.call!
  return reference === null
    ? await processor.searchRefund(request.payment_reference, job.payload.refund_id)
    : await processor.findRefund(reference)
}

function isOurs(found: ProcessorRefund, { payment_reference, amount_minor, metadata }: RefundRequest) {
  const named = found.metadata['sluice_refund_id'] ?? metadata['sluice_refund_id']
  return (
    found.payment_reference === payment_reference &&
    found.amount_minor === amount_minor &&
    named === metadata['sluice_refund_id']
  )
}

/** The processor's refund in our words. */
export function toldOfRefund(
  of: { tenant_id: string; payment_id: string; refund_id: string },
  refund: ProcessorRefund,
): RefundTold {
  return {
    ...of,
    status: refund.status,
    processor_reference: refund.reference,
    failure: failureOf(refund),
  }
}

/** Why a refund failed at the processor; null unless it did. */
export function failureOf(refund: ProcessorRefund): RefundTold['failure'] {
  if (refund.status !== 'failed') return null
  return { code: 'processor_error', message: refund.failure_reason ?? 'the refund failed at the processor' }
}

async function settleRefund(
  context: WorkerContext,
  job: RefundJob,
  settlement: Settlement,
  refund: ProcessorRefund,
): Promise<Settlement> {
  const told = toldOfRefund(ids(job), refund)
  const whole = { ...settlement, provider_reference: refund.reference }
  return fencedUnless(await context.settle.refund({ ...whole, told, notification_id: null }), whole)
}

function ids(job: RefundJob) {
  return { tenant_id: job.tenant_id, payment_id: job.payload.payment_id, refund_id: job.payload.refund_id }
}
