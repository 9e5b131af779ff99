// Performs refunds: one provider call, or a look where sending again could refund twice.
import type { Outcome } from '#core/outcome.ts'
import type { ClaimedJob, Settlement } from '#domain/jobs.ts'
import type { RefundTold } from '#domain/refunds.ts'
import type { ProcessorRefund, RefundRequest } from '#providers/processor.ts'
import type { PayloadOf } from '#jobs/index.ts'
import type { WorkerContext } from './context.ts'
import { fencedUnless, lookFailed } from './payments.ts'
import { failed, succeeded, unfinished, unknown } from './settlement.ts'

type RefundJob = ClaimedJob & { payload: PayloadOf<'refund.create'> }

/** Refunds a captured payment at the processor. */
export async function createRefund(context: WorkerContext, job: RefundJob): Promise<Settlement> {
  const { key, look_only } = job.call!
  const request = job.call!.request as RefundRequest
  const sent: Outcome<ProcessorRefund> = look_only
    ? { kind: 'ambiguous', reason: 'too late to send again', replayed: true }
    : await context.processor.refund(request, key)
  if (sent.kind === 'done') return await settleRefund(context, job, succeeded(job), sent.value)

  // A refusal after an earlier attempt, or a stored error, may hide a refund that went through.
  const doubtful =
    (sent.kind === 'declined' && job.attempt > 1) || (sent.kind === 'ambiguous' && sent.replayed)
  if (doubtful) {
    const looked = await context.processor.searchRefund(request.payment_reference, job.payload.refund_id)
    if (looked.kind !== 'done')
      return fencedUnless(await context.settle.job(lookFailed(job, looked)), lookFailed(job, looked))
    if (looked.value !== null) return await settleRefund(context, job, succeeded(job), looked.value)
    if (sent.kind === 'ambiguous') {
      const settlement = unknown(job, 'the processor has not shown the refund yet; it may still exist')
      return fencedUnless(await context.settle.job(settlement), settlement)
    }
  }
  const settlement = sent.kind === 'declined' ? 'never sent' : await unfinished(context.sql, job, sent)
  if (settlement !== 'never sent') return fencedUnless(await context.settle.job(settlement), settlement)
  const failure =
    sent.kind === 'declined'
      ? sent.failure
      : { code: 'processor_error', message: 'the processor could not be reached' }
  const told: RefundTold = {
    ...ids(job),
    status: 'failed',
    processor_reference: null,
    failure: { code: failure.code, message: failure.message },
  }
  const given = failed(job, failure)
  return fencedUnless(await context.settle.refund({ ...given, told, notification_id: null }), given)
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
