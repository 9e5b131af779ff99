// Compares a payment or refund with what the processor says of it, and keeps the record of drifts.
import type { Outcome } from '#core/outcome.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import { findOurs, mendDrift, openDrift, type Side } from '#domain/reconciliation/drift.ts'
import type { ProcessorPayment, ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../context.ts'

/** Ours may move while the processor is asked; what moves is asked about again, and after that compared another time. */
const TRIES = 3
/** All is written. */
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
 * Opens, updates or mends the drift of a payment (or of its refund, when `refund_id` is given), after all that the
 * processor said was applied. What it said may be older than what we see by now, so before a drift is opened it is asked
 * again while ours stands still. Answers `done` when all is written; otherwise nobody knows, and it must be compared again.
 * `patient`: where only the total of refunds differs nothing is opened, and since when the payment stands so is answered, to
 * be looked at again. `reference`: the processor's name of it, where we have not stored it. `news`: the notification that is
 * being applied, which waits no more.
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
    log.error({ ...of, state, ours, theirs, detail, since }, 'the processor has it otherwise than we do')
    return COMPARED
  }
  return { kind: 'retry', reason: `the ${subject} moved each time while the processor was asked` }
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
