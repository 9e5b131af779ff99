// Applies provider events about payments.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { findPaymentByIds, findPaymentByReference, type ExistingPayment } from '#domain/payments/find.ts'
import { recoverPayment } from '#domain/payments/recover.ts'
import { idIn, type ObjectMarks } from '#domain/provider-metadata.ts'
import { disagreement, hasDifferentMoney } from '#domain/reconciliation/compare.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import { done, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { cancelDuplicate, isUndoableDuplicate, mayBeDuplicate } from '../duplicates/effects.ts'
import { endApplied, findRowAndRecord, isLookup } from '../notifications/apply.ts'
import { compare } from '../notifications/drifts.ts'
import { parkFor, wasDrift, wasParkedFor } from '../notifications/parked.ts'
import { findingWithinMode } from '../notifications/rows.ts'
import { comparedPayment, settlingPayment, paymentUpdate, paymentKey, sideOfPayment } from './effects.ts'

export const paymentRows = findingWithinMode<ExistingPayment>({
  resource: 'payment',
  byReference: ({ sql, processor }, reference) => findPaymentByReference(sql, processor.name, reference),
  byIds: ({ sql }, ids, reference) => findPaymentByIds(sql, ids, reference),
})

export const paymentEvent = {
  apply: applyPayment,
  findRow: async (context: WorkerContext, { reference }: ProviderEventTarget) =>
    await findPaymentRow(context, reference),
}

/**
 * Finds our payment by its reference at the processor. `compared`: how its row is compared with the processor's record.
 */
export async function findPaymentRow(context: WorkerContext, reference: string) {
  const payment = await paymentRows.byReference(context, reference)
  return payment && { ...payment, compared: comparedPayment }
}

/** Makes the row of a payment again. */
export async function recoverLostPayment(
  context: WorkerContext,
  marks: ObjectMarks,
  record: ProcessorPayment,
): Promise<boolean> {
  const { amount_minor, currency, description, metadata } = record
  const { tenant_id, id: payment_id } = marks
  const update = paymentUpdate(context, { tenant_id, payment_id }, record)
  return await recoverPayment(context.sql, {
    ...marks,
    status:
      record.status === 'requires_action' || record.status === 'processing' ? 'requires_action' : 'pending',
    amount_minor,
    currency,
    description,
    customer_id: idIn(metadata, 'customer_id'),
    merchant_id: idIn(metadata, 'merchant_id'),
    client_secret: update?.client_secret ?? null,
    failure: update?.failure ?? null,
    authorized_at: record.authorized_at,
    processor: context.processor.name,
    processor_reference: record.reference,
  })
}

async function applyPayment(
  context: WorkerContext,
  notification: StoredNotification,
  target: ProviderEventTarget,
): Promise<Decision> {
  const { sql, processor, livemode } = context
  const { reference } = target
  const is_lookup = isLookup(notification)
  const decideDuplicate = async (row: ExistingPayment, record: ProcessorPayment) => {
    const same = record.amount_minor === row.amount_minor && record.currency === row.currency
    if (!same || !(await isUndoableDuplicate(context, 'payment', row, record))) return undefined
    return done({ effects: cancelDuplicate('payment', row, record.reference, notification.id) })
  }
  const both = await findRowAndRecord(context, notification, target, {
    compared: comparedPayment,
    rows: paymentRows,
    query: () => processor.findPayment(reference),
    sideOf: sideOfPayment,
    recover: recoverLostPayment,
    park_duplicates: true,
    decideDuplicate,
    // Only a canceled record may be a duplicate: a hold counts as the payment's own, even if a call under an earlier
    // key created it.
    isPossibleDuplicate: async ({ processor_reference, ...row }, { status }) =>
      status === 'canceled' &&
      (await mayBeDuplicate(context, 'payment', { ...row, provider_reference: processor_reference })),
  })
  if ('decision' in both) return both.decision
  const { row: payment, record } = both
  // If our payment ended without an object at the processor, the record belongs to an earlier call that took effect
  // after all. A later call was refused, or was not sent because the payment was canceled.
  const has_no_object =
    payment.status === 'failed' || (payment.status === 'canceled' && payment.processor_reference === null)
  const duplicate_decision = has_no_object ? await decideDuplicate(payment, record) : undefined
  if (duplicate_decision !== undefined) return duplicate_decision
  const ids = { tenant_id: payment.tenant_id, payment_id: payment.id }
  addLogFacts(ids)
  const theirs = sideOfPayment(record)
  const differs = disagreement('payment', { ours: payment, has_open_job: true, parked: [] }, theirs)
  const may_resolve_itself = !wasParkedFor(notification, 'refunds_differ')
  if (is_lookup && differs?.transient === true && may_resolve_itself)
    return parkFor(context, notification, 'refunds_differ', { waits_for: reference, of: paymentKey(ids) })
  const update = paymentUpdate(context, ids, record)
  // The payment of a lost request, whose key was used again with another amount: its job decides.
  const is_other = payment.processor_reference === null && hasDifferentMoney(payment, theirs)
  const effects =
    is_other || !update ? undefined : settlingPayment({ update, notification_id: notification.id })
  if (!is_lookup && differs === null && !wasDrift(notification))
    return await endApplied(notification, paymentKey(ids), { effects })
  // A payment that is final here may have another state at the provider, and then no notification changes our row. So
  // the row is compared with the provider's record.
  const compareAfter = async () => {
    const options = { may_resolve_itself, reference, except_id: notification.id }
    const compared = await compare(context, comparedPayment, payment, theirs, options)
    if (compared.kind === 'done' && compared.value !== null) {
      const name = `${compared.value.since}:${theirs.amount_refunded_minor} refunded`
      const of = { provider: processor.name, livemode }
      const { tenant_id } = payment
      const lookup = requestLookup(of, { resource: 'payment', reference, tenant_id }, name)
      await storeNotifications(sql, [lookup])
    }
    return compared
  }
  return await endApplied(notification, paymentKey(ids), { effects, compareAfter })
}
