// Shared by refunds and disputes: the payment that they belong to.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import type { ExistingPayment } from '#domain/payments/find.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import { hasSluiceIds } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { compare } from './drifts.ts'
import { retryQuery, parkFor, wasParkedFor } from './parked.ts'
import { parkOrphan } from './orphans.ts'
import { recoverRow } from './recover.ts'
import { findRowOfRecord } from './rows.ts'
import { comparedPayment, paymentKey } from '../payments/effects.ts'
import { findPaymentRow, paymentRows, recoverLostPayment } from '../payments/events.ts'

/** The row to which events about a refund or dispute are assigned: its payment. */
export async function findParentRow(context: WorkerContext, { parent_reference }: ProviderEventTarget) {
  return parent_reference === null ? undefined : await findPaymentRow(context, parent_reference)
}

/**
 * Finds our payment with this reference at the processor. Returns the decision if there is no such payment. If no row
 * has the reference, the processor is queried: the payment may carry our ids, or belong to another application.
 */
export async function findParentPayment(
  context: WorkerContext,
  notification: StoredNotification,
  reference: string | null,
): Promise<{ payment: ExistingPayment } | { decision: Decision }> {
  if (reference === null) return { decision: parkFor(context, notification, 'not_ours') }
  const existing = await paymentRows.byReference(context, reference)
  if (existing !== undefined) return { payment: existing }
  const waitFor = (reason: 'not_ours' | 'not_known_here' | 'not_at_processor') => ({
    decision: parkFor(context, notification, reason, { waits_for: reference }),
  })
  if (notification.reason === 'not_ours') return waitFor('not_ours')
  const lookup = await context.processor.findPayment(reference)
  if (lookup.kind !== 'done') return { decision: retryQuery(notification, lookup) }
  if (lookup.value === null) return waitFor('not_at_processor')
  const record = lookup.value
  const payment = await findRowOfRecord(context, paymentRows, record)
  if (payment !== undefined) return { payment }
  const { provider, livemode } = notification
  const recovered = await recoverRow(context, paymentRows, record, recoverLostPayment)
  if (recovered !== undefined && 'row' in recovered) {
    // The status of the payment is settled by a lookup of its own.
    const of = { provider, livemode }
    const { tenant_id } = recovered.row
    const lookup_of_payment = requestLookup(of, { resource: 'payment', reference, tenant_id }, 'recovered')
    await storeNotifications(context.sql, [lookup_of_payment])
    return { payment: recovered.row }
  }
  if (recovered !== undefined) {
    const { tenant_id, problem } = recovered
    const child = notification.object_id ?? reference
    const orphan = {
      resource: 'payment',
      reference: child,
      tenant_id,
      problem: `its payment ${reference} has no row: ${problem}`,
      theirs: { status: record.status, processor_reference: child },
      waits_for: reference,
    } as const
    return { decision: await parkOrphan(context, notification, orphan) }
  }
  return waitFor(hasSluiceIds(record.metadata) ? 'not_known_here' : 'not_ours')
}

/**
 * Parks the notification of a refund or dispute whose amount does not fit the payment yet: the capture is not known
 * here, or our own refunds have reserved the amount and the processor will refuse them. The notification is resumed
 * when the capture is known here or the refunds are refused. If neither happens for a while, a drift is opened.
 */
export async function parkUntilAmountFits(
  context: WorkerContext,
  notification: StoredNotification,
  payment: ExistingPayment,
  payment_reference: string | null,
): Promise<Decision> {
  if (wasParkedFor(notification, 'does_not_fit')) {
    const compared = await compare(context, comparedPayment, payment, null, { reference: payment_reference })
    if (compared.kind !== 'done') return retryQuery(notification, compared)
  }
  const key = paymentKey({ tenant_id: payment.tenant_id, payment_id: payment.id })
  return parkFor(context, notification, 'does_not_fit', { waits_for: payment_reference, of: key })
}
