// Performs the job of a refund: creates it at the processor.
import { findRefundByIds } from '#domain/refunds/find.ts'
import { emptyRefundUpdate, type RefundUpdate } from '#domain/refunds/settle.ts'
import { createRefund } from '#jobs/refunds.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, type Decision } from '../../decision.ts'
import { IRREVERSIBLE } from '../absence.ts'
import { UNREACHABLE } from '../calls.ts'
import { createAtProvider, reportMismatch, resendUnderNewKey } from '../create.ts'
import { calling, type JobOf } from '../handler.ts'
import { adoptRefund, comparedRefund, refundUpdate, settlingRefund, sideOfRefund } from './effects.ts'

type RefundJob = JobOf<typeof createRefund>

export const refundHandlers = {
  [createRefund.name]: calling(createRefund, create),
}

/** Refunds a captured payment at the processor. */
async function create(context: WorkerContext, job: RefundJob): Promise<Decision> {
  const { sql, processor } = context
  const { request } = job.call
  const ids = idsOf(job)
  const { tenant_id, payment_id, refund_id: id } = ids
  return await createAtProvider<ProcessorRefund>(context, job, {
    row: { tenant_id, resource: 'refund', id },
    provider: processor,
    absence: IRREVERSIBLE,
    send: (key) => processor.refund(request, key),
    isUndecided: () => false,
    findReference: async () =>
      (await findRefundByIds(sql, { tenant_id, payment_id, id }, null))?.processor_reference ?? null,
    find: (reference) => processor.findRefund(reference),
    search: () => processor.searchRefund(request.payment_reference, id),
    matchesRequest: (found) => matchesRequest(found, job),
    onMismatch: (found) =>
      reportMismatch(
        context,
        comparedRefund,
        { tenant_id, id },
        {
          requested: { amount_minor: request.amount_minor },
          theirs: sideOfRefund(found),
          reference: found.reference,
        },
      ),
    created: (refund) =>
      done({ reference: refund.reference, effects: refundEffects(refundUpdate(ids, refund)) }),
    adopt: (found) => adoptRefund(context, { ...ids, requested: request.metadata }, found),
    refused: (failure) => refused(job, failure),
    absent: resendUnderNewKey,
    unreachable: UNREACHABLE,
    unsent: null,
  })
}

function matchesRequest(found: ProcessorRefund, { call }: RefundJob): boolean {
  const { payment_reference, amount_minor, metadata } = call.request
  const marked_id = found.metadata['sluice_refund_id'] ?? metadata['sluice_refund_id']
  return (
    found.payment_reference === payment_reference &&
    found.amount_minor === amount_minor &&
    marked_id === metadata['sluice_refund_id']
  )
}

function refused(job: RefundJob, failure: { code: string; message: string }): Decision {
  const { code, message } = failure
  const update: RefundUpdate = {
    ...emptyRefundUpdate,
    ...idsOf(job),
    status: 'failed',
    failure: { code, message },
  }
  return failed(failure, { effects: refundEffects(update) })
}

const refundEffects = (update: RefundUpdate) => settlingRefund({ update, notification_id: null })

function idsOf({ tenant_id, payload }: RefundJob) {
  return { tenant_id, payment_id: payload.payment_id, refund_id: payload.refund_id }
}
