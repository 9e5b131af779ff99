// Compares a payment or refund with what the processor just said of it, and keeps the record of drifts.
import { disagreement } from '#domain/reconciliation/compare.ts'
import { findOurs, mendDrift, openDrift, type Side } from '#domain/reconciliation/drift.ts'
import type { ProcessorPayment, ProcessorRefund } from '#providers/processor.ts'
import type { WorkerContext } from './context.ts'

/** The processor's payment as one side of a comparison. */
export function sideOfPayment(payment: ProcessorPayment): Side {
  return {
    status: payment.status,
    amount_minor: payment.amount_minor,
    amount_capturable_minor: payment.amount_capturable_minor,
    amount_captured_minor: payment.amount_captured_minor,
    currency: payment.currency,
    processor_reference: payment.reference,
  }
}

/** The processor's refund as one side of a comparison. */
export function sideOfRefund(refund: ProcessorRefund): Side {
  return {
    status: refund.status,
    amount_minor: refund.amount_minor,
    currency: refund.currency,
    processor_reference: refund.reference,
  }
}

/**
 * Opens, updates or mends the drift of a payment (or of its refund, when `refund_id` is given), after all that the
 * processor said was applied. `theirs` null: the processor knows no such thing.
 */
export async function compare(
  { sql, log }: WorkerContext,
  { tenant_id, payment_id, refund_id }: { tenant_id: string; payment_id: string; refund_id?: string },
  theirs: Side | null,
): Promise<void> {
  const subject = refund_id === undefined ? 'payment' : 'refund'
  const of = { tenant_id, subject, subject_id: refund_id ?? payment_id, payment_id } as const
  const found = await findOurs(sql, of)
  if (found === undefined) return
  const state = disagreement(subject, found, theirs)
  if (state === null) return await mendDrift(sql, of)
  const { ours, since } = found
  const detail = theirs === null ? `the processor does not know the ${subject}` : null
  await openDrift(sql, of, { state, ours, theirs, detail, since })
  log.error({ ...of, state, ours, theirs, since }, 'the processor has it otherwise than we do')
}
