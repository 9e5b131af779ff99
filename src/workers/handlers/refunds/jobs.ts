// Performs the job of a refund: creates it at the processor.
import { findRefundByIds } from '#domain/refunds/find.ts'
import { nothingReportedOfRefund, type RefundTold } from '#domain/refunds/settle.ts'
import { createRefund } from '#jobs/refunds.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, type Decision } from '../../decision.ts'
import { IRREVERSIBLE } from '../absence.ts'
import { UNREACHABLE } from '../calls.ts'
import { createAtProvider, showAnother, madeAgain } from '../create.ts'
import { calling, type JobOf } from '../handler.ts'
import { comparedRefund, refundTold, settlingRefund, sideOfRefund } from './effects.ts'

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
    provider: processor,
    absence: IRREVERSIBLE,
    send: (key) => processor.refund(request, key),
    isUndecided: () => false,
    findReference: async () =>
      (await findRefundByIds(sql, { tenant_id, payment_id, id }, null))?.processor_reference ?? null,
    find: (reference) => processor.findRefund(reference),
    search: () => processor.searchRefund(request.payment_reference, id),
    isOurs: (found) => isOurs(found, job),
    another: (found) =>
      showAnother(
        context,
        comparedRefund,
        { tenant_id, id },
        {
          asked: { amount_minor: request.amount_minor },
          theirs: sideOfRefund(found),
          reference: found.reference,
        },
      ),
    created: (refund) => done({ reference: refund.reference, tells: aboutRefund(refundTold(ids, refund)) }),
    refused: (failure) => refused(job, failure),
    absent: madeAgain,
    unreachable: UNREACHABLE,
    unsent: null,
  })
}

function isOurs(found: ProcessorRefund, { call }: RefundJob): boolean {
  const { payment_reference, amount_minor, metadata } = call.request
  const named = found.metadata['sluice_refund_id'] ?? metadata['sluice_refund_id']
  return (
    found.payment_reference === payment_reference &&
    found.amount_minor === amount_minor &&
    named === metadata['sluice_refund_id']
  )
}

function refused(job: RefundJob, failure: { code: string; message: string }): Decision {
  const { code, message } = failure
  const told: RefundTold = {
    ...nothingReportedOfRefund,
    ...idsOf(job),
    status: 'failed',
    failure: { code, message },
  }
  return failed(failure, { tells: aboutRefund(told) })
}

const aboutRefund = (told: RefundTold) => settlingRefund({ told, notification_id: null })

function idsOf({ tenant_id, payload }: RefundJob) {
  return { tenant_id, payment_id: payload.payment_id, refund_id: payload.refund_id }
}
