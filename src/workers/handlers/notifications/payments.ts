// Translates what the processor says of a payment, for its jobs too, and applies notifications about it.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { findPaymentByIds, findPaymentByReference, type KnownPayment } from '#domain/payments/find.ts'
import type { PaymentSide } from '#domain/payments/subject.ts'
import { clientSecretPlace } from '#domain/payments/sealed.ts'
import { settlePayments, type PaymentSettlement, type PaymentTold } from '#domain/payments/settle.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import { findOurs } from '#domain/reconciliation/drift.ts'
import { lookAt } from '#domain/reconciliation/looks.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import type { News } from '#providers/news.ts'
import type { ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import { done, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { settling, type Told } from '../../settle.ts'
import { applied, findBoth, isLook, type RowsOf } from './apply.ts'
import { compare, sided, type ComparedNoun } from './drifts.ts'
import { cancelDuplicate, isUndoableDuplicate, mayBeDuplicate } from './duplicates.ts'
import { parkFor, wasDrift, wasParkedFor } from './parked.ts'

export const paymentRows: RowsOf<KnownPayment> = {
  noun: 'payment',
  byReference: ({ sql, processor }, reference) => findPaymentByReference(sql, processor.name, reference),
  byIds: ({ sql }, ids, reference) => findPaymentByIds(sql, ids, reference),
}

export const comparedPayment: ComparedNoun = {
  noun: 'payment',
  ask: async ({ processor }, reference) => sided(await processor.findPayment(reference), sideOf),
}

/** No two of one payment in one statement. */
export const settlingPayment = settling<Told<PaymentSettlement>>(
  'settle_payment',
  settlePayments,
  ({ told }) => told.payment_id,
)

export const paymentNews = {
  apply: applyPayment,
  findRow: async (context: WorkerContext, { reference }: News) => await findRow(context, reference),
}

/** Undefined while the processor is still working on the payment; a notification will follow. */
export function paymentTold(
  { vault }: WorkerContext,
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
        : vault.seal(payment.client_secret, clientSecretPlace(tenant_id, payment_id)),
    capture_before: payment.capture_before,
    cancellation_reason: payment.cancellation_reason,
    // A payment that succeeded or was canceled has no failure, whatever was tried before.
    failure: waits || payment.status === 'failed' ? declineOf(payment) : null,
  }
}

/** Why the last try to authorize a payment failed; null unless one did. */
export function declineOf({ failure }: ProcessorPayment): NonNullable<PaymentTold['failure']> | null {
  if (failure === null) return null
  const { code, message, decline_code } = failure
  return { code: 'payment_declined', message, decline_code: decline_code ?? code }
}

/** The payment that the processor knows by `reference`, to be compared. */
export async function findRow({ sql, processor }: WorkerContext, reference: string) {
  const payment = await findPaymentByReference(sql, processor.name, reference)
  return payment && { ...payment, compared: comparedPayment }
}

/** The row under which notifications of a payment and of its refunds are filed: the payment. */
export function filedUnder({ tenant_id, payment_id }: { tenant_id: string; payment_id: string }): SubjectKey {
  return { tenant_id, subject: 'payment', subject_id: payment_id }
}

/** The processor's payment as one side of a comparison. */
function sideOf(payment: ProcessorPayment): PaymentSide {
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

async function applyPayment(
  context: WorkerContext,
  notification: StoredNotification,
  news: News,
): Promise<Decision> {
  const { sql, processor } = context
  const { reference } = news
  const is_look = isLook(notification)
  const undo = async (row: KnownPayment, record: ProcessorPayment) => {
    const same = record.amount_minor === row.amount_minor && record.currency === row.currency
    if (!same || !(await isUndoableDuplicate(context, 'payment', row, record))) return undefined
    return done({ tells: cancelDuplicate('payment', row, record.reference, notification.id) })
  }
  const both = await findBoth(context, notification, news, {
    compared: comparedPayment,
    rows: paymentRows,
    ask: () => processor.findPayment(reference),
    seconds: true,
    undo,
    // A hold is taken as ours, whichever call made it.
    mayBeSecond: async ({ processor_reference, ...row }, { status }) =>
      status === 'canceled' &&
      (await mayBeDuplicate(context, 'payment', { ...row, provider_reference: processor_reference })),
  })
  if ('decision' in both) return both.decision
  const { row: payment, record } = both
  // The first call had an effect after all. Its second one was refused, or was not made: the payment was canceled.
  const has_none =
    payment.status === 'failed' || (payment.status === 'canceled' && payment.processor_reference === null)
  const undone = has_none ? await undo(payment, record) : undefined
  if (undone !== undefined) return undone
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  addLogFacts(of)
  const theirs = sideOf(record)
  const differs = disagreement('payment', { ours: payment, worked_on: true, parked: [] }, theirs)
  const patient = !wasParkedFor(notification, 'refunds_differ')
  if (is_look && differs?.passing === true && patient)
    return parkFor(context, notification, 'refunds_differ', { waits_for: reference, of: filedUnder(of) })
  const told = paymentTold(context, of, record)
  const orphaned = payment.status === 'pending' && (await isOrphaned(context, of))
  const tells = told && settlingPayment({ told, notification_id: notification.id, orphaned })
  if (!is_look && differs === null && !wasDrift(notification))
    return await applied(notification, filedUnder(of), { tells })
  // A payment that is settled here may differ there, and then no notification will change it.
  const compareAfter = async () => {
    const options = { patient, reference, news: notification.id }
    const compared = await compare(context, comparedPayment, payment, theirs, options)
    if (compared.kind === 'done' && compared.value !== null) {
      const name = `${compared.value.since}:${theirs.amount_refunded_minor} refunded`
      const look = lookAt(processor.name, { subject: 'payment', reference }, name)
      await storeNotifications(sql, [look])
    }
    return compared
  }
  return await applied(notification, filedUnder(of), { tells, compareAfter })
}

// The job of an authorization stays open until its outcome is known, but earlier versions closed some before: those
// payments have no job, and notifications settle them.
async function isOrphaned(
  { sql }: WorkerContext,
  { tenant_id, payment_id }: { tenant_id: string; payment_id: string },
): Promise<boolean> {
  const found = await findOurs(sql, { tenant_id, subject: 'payment', subject_id: payment_id })
  return found?.ours.status === 'pending' && !found.worked_on
}
