// Performs refunds: one provider call, or a look when sending again could refund twice.
import type { Outcome } from '#core/outcome.ts'
import type { RefundTold } from '#domain/refunds/settle.ts'
import { createRefund } from '#jobs/refunds.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../context.ts'
import { done, failed, rotate, unanswered, undone, unknown, type Decision } from '../decision.ts'
import { IRREVERSIBLE, NEVER_TOOK_EFFECT, untilAbsent } from './absence.ts'
import { mayHideAnEffect, neverSent, TOO_LATE, UNREACHABLE } from './calls.ts'
import { calling, type JobOf } from './handler.ts'
import { compare } from './notifications/drifts.ts'
import { comparedRefund, refundTold, settlingRefund, sideOfRefund } from './notifications/refunds.ts'

type RefundJob = JobOf<typeof createRefund>

export const refundHandlers = {
  [createRefund.name]: calling(createRefund, create),
}

/** Refunds a captured payment at the processor. */
async function create(context: WorkerContext, job: RefundJob): Promise<Decision> {
  const { processor } = context
  const { call } = job
  const sent: Outcome<ProcessorRefund> = call.look_only
    ? TOO_LATE
    : await processor.refund(call.request, call.key)
  if (sent.kind === 'done') return await created(context, job, sent.value)

  if (mayHideAnEffect(call, sent)) {
    const looked = await look(processor, job)
    if (looked.kind !== 'done') return unanswered(looked)
    const found = looked.value
    if (found !== null) return await created(context, job, found)
    if (sent.kind !== 'declined' || sent.failure.code === 'processor_error') {
      if (call.reference !== null) return unknown(`the processor does not know ${call.reference}`)
      return (await untilAbsent(context, job.sendings, processor, IRREVERSIBLE)) ?? rotate(NEVER_TOOK_EFFECT)
    }
  }
  if (sent.kind === 'declined') return refused(job, sent.failure)
  if (neverSent(call, sent)) return refused(job, UNREACHABLE)
  return undone(sent)
}

// Finds the refund by the reference that an operator gave, else by our own id among the refunds of the payment.
async function look(processor: WorkerContext['processor'], { call, payload }: RefundJob) {
  return call.reference === null
    ? await processor.searchRefund(call.request.payment_reference, payload.refund_id)
    : await processor.findRefund(call.reference)
}

// What the processor has for this refund. If that is not what was asked for, nothing is settled with it, and it is shown.
async function created(context: WorkerContext, job: RefundJob, found: ProcessorRefund): Promise<Decision> {
  if (isOurs(found, job)) return tell(job, found)
  const { reference } = found
  if (found.amount_minor !== job.call.request.amount_minor) {
    const ours = { tenant_id: job.tenant_id, id: job.payload.refund_id }
    const compared = await compare(context, comparedRefund, ours, sideOfRefund(found), { reference })
    if (compared.kind !== 'done') return unanswered(compared)
  }
  return unknown(`${reference} is another refund`)
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

function tell(job: RefundJob, refund: ProcessorRefund): Decision {
  return done({ reference: refund.reference, tells: aboutRefund(refundTold(idsOf(job), refund)) })
}

function refused(job: RefundJob, failure: { code: string; message: string }): Decision {
  const { code, message } = failure
  const told: RefundTold = {
    ...idsOf(job),
    status: 'failed',
    processor_reference: null,
    failure: { code, message },
  }
  return failed(failure, { tells: aboutRefund(told) })
}

const aboutRefund = (told: RefundTold) => settlingRefund({ told, notification_id: null })

function idsOf({ tenant_id, payload }: RefundJob) {
  return { tenant_id, payment_id: payload.payment_id, refund_id: payload.refund_id }
}
