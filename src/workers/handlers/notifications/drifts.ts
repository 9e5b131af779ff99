// Compares a payment or refund with the processor's record of it, and opens or closes its drift.
import type { Outcome } from '#core/outcome.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import { findOurs, mendDrift, openDrift, type Side } from '#domain/reconciliation/drift.ts'
import type { ProcessorPayment, ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'

/** Our row may change while the processor is asked; then both are read again, this often at most. */
const TRIES = 3
/** The comparison is over and its result is written. */
export const COMPARED = { kind: 'done', value: null } as const

/** The processor's payment as one side of a comparison. */
export function sideOfPayment(payment: ProcessorPayment): Side {
  return {
    status: payment.status,
    amount_minor: payment.amount_minor,
    amount_capturable_minor: payment.amount_capturable_minor,
    amount_captured_minor: payment.amount_captured_minor,
    amount_refunded_minor: payment.amount_refunded_minor,
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
 * Opens, updates or closes the drift of a payment, or of its refund when `refund_id` is given. `said` is the
 * processor's side, after it was applied here. It may be older than our row by now, so before a drift is opened the
 * processor is asked again while our row does not change. Returns `done` when the result is written; with any other
 * outcome the comparison must be repeated.
 *
 * `patient`: when only the total of refunds differs, opens nothing and returns since when our row has been as it is,
 * so that the caller can look again. `reference`: the processor's id, for a row that has not stored it. `news`: the
 * notification that is being applied; it does not count as waiting.
 */
export async function compare(
  context: WorkerContext,
  { tenant_id, payment_id, refund_id }: { tenant_id: string; payment_id: string; refund_id?: string },
  said: Side | null,
  {
    patient = false,
    reference: named = null,
    news = null,
  }: { patient?: boolean; reference?: string | null; news?: string | null } = {},
): Promise<Outcome<{ since: string } | null>> {
  const { sql, log } = context
  const subject = refund_id === undefined ? 'payment' : 'refund'
  const of = { tenant_id, subject, subject_id: refund_id ?? payment_id, payment_id } as const
  let found = await findOurs(sql, { ...of, news })
  if (found === undefined) return COMPARED
  const first = disagreement(subject, found, said)
  if (first === null) {
    await mendDrift(sql, of, found.ours)
    return COMPARED
  }
  if (first.passing && patient) return { kind: 'done', value: { since: found.since } }
  for (let tries = 0; tries < TRIES; tries++) {
    const reference: string | null = said?.processor_reference ?? found.ours.processor_reference ?? named
    if (reference === null) return COMPARED
    const asked = await ask(context, subject, reference)
    if (asked.kind !== 'done') return asked
    const theirs = asked.value
    const before = found.since
    found = await findOurs(sql, { ...of, news })
    if (found === undefined) return COMPARED
    const differs = disagreement(subject, found, theirs)
    if (differs === null) {
      await mendDrift(sql, of, found.ours)
      return COMPARED
    }
    const { ours, since } = found
    if (since !== before) continue
    if (differs.passing && patient) return { kind: 'done', value: { since } }
    const { state, detail } = differs
    await openDrift(sql, of, { state, ours, theirs, detail, since })
    log.error({ ...of, state, ours, theirs, detail, since }, 'our books and the processor differ')
    return COMPARED
  }
  return { kind: 'retry', reason: `the ${subject} changed each time while the processor was asked` }
}

async function ask(
  { processor }: WorkerContext,
  subject: 'payment' | 'refund',
  reference: string,
): Promise<Outcome<Side | null>> {
  if (subject === 'payment') {
    const looked = await processor.findPayment(reference)
    return looked.kind === 'done'
      ? { kind: 'done', value: looked.value && sideOfPayment(looked.value) }
      : looked
  }
  const looked = await processor.findRefund(reference)
  return looked.kind === 'done' ? { kind: 'done', value: looked.value && sideOfRefund(looked.value) } : looked
}
