// Applies news of a payment.
import { z } from 'zod'
import { storeNotifications, type StoredNotification } from '#domain/notifications.ts'
import { findPaymentByIds, findPaymentByReference, type KnownPayment } from '#domain/payments/find.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import { findOurs } from '#domain/reconciliation/drift.ts'
import { lookAt } from '#domain/reconciliation/looks.ts'
import type { ProcessorNews, ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { about } from '../../story.ts'
import { paymentTold, settlingPayment } from '../told.ts'
import { applied, isLook, wasDrift } from './apply.ts'
import { compare, sideOfPayment } from './drifts.ts'
import { askAgain, filedUnder, hasWaited, over, parkFor } from './parked.ts'

export async function applyPayment(
  context: WorkerContext,
  notification: StoredNotification,
  { reference, marked }: ProcessorNews,
): Promise<Decision> {
  const { sql, processor } = context
  const is_look = isLook(notification)
  const find = () => findPaymentByReference(sql, processor.name, reference)
  // Another application's need not be fetched to be known as such.
  if (!is_look && !marked && (await find()) === undefined)
    return parkFor(context, notification, 'not_ours', { waits_for: reference })
  const looked = await processor.findPayment(reference)
  if (looked.kind !== 'done') return askAgain(notification, looked)
  const payment = looked.value === null ? await find() : await ownerOf(context, looked.value)
  if (
    payment !== undefined &&
    looked.value === null &&
    (is_look || hasWaited(notification, 'not_at_processor'))
  ) {
    const compared = await compare(context, { tenant_id: payment.tenant_id, payment_id: payment.id }, null)
    if (compared.kind !== 'done') return askAgain(notification, compared)
  }
  if (payment === undefined || looked.value === null) {
    if (is_look) return over(notification, 'ignored')
    const reason = looked.value === null ? 'not_at_processor' : 'not_known_here'
    return parkFor(context, notification, reason, { waits_for: reference })
  }
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  about(of)
  const theirs = sideOfPayment(looked.value)
  const differs = disagreement('payment', { ours: payment, worked_on: true, waiting: [] }, theirs)
  const patient = !hasWaited(notification, 'refunds_differ')
  if (is_look && differs?.passing === true && patient)
    return parkFor(context, notification, 'refunds_differ', { waits_for: reference, of: filedUnder(of) })
  const told = paymentTold(context, of, looked.value)
  const orphaned = payment.status === 'pending' && (await isOrphaned(context, of))
  const tells = told && settlingPayment({ told, notification_id: notification.id, orphaned })
  if (!is_look && differs === null && !wasDrift(notification))
    return await applied(notification, of, { tells })
  // What is settled here may stand otherwise there, and then no news moves it.
  const compareAfter = async () => {
    const compared = await compare(context, of, theirs, { patient, news: notification.id })
    if (compared.kind === 'done' && compared.value !== null) {
      const name = `${compared.value.since}:${theirs.amount_refunded_minor} refunded`
      const look = lookAt(processor.name, { subject: 'payment', reference }, name)
      await storeNotifications(sql, [{ ...look, rung: false, request_id: null }])
    }
    return compared
  }
  return await applied(notification, of, { tells, compareAfter })
}

/**
 * By our own ids where the processor kept them: the news may be faster than the answer that names its reference. A copy of
 * them on something else makes that not ours.
 */
export async function ownerOf(
  { sql, processor }: WorkerContext,
  payment: ProcessorPayment,
): Promise<KnownPayment | undefined> {
  const { sluice_tenant_id, sluice_payment_id } = payment.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, id: sluice_payment_id })
  const known = ids.success && (await findPaymentByIds(sql, ids.data, payment.reference))
  return known || (await findPaymentByReference(sql, processor.name, payment.reference))
}

// The job of an authorization stays open until its outcome is known. One that an earlier version closed before is moved by news.
async function isOrphaned(
  { sql }: WorkerContext,
  { tenant_id, payment_id }: { tenant_id: string; payment_id: string },
): Promise<boolean> {
  const found = await findOurs(sql, { tenant_id, subject: 'payment', subject_id: payment_id })
  return found?.ours.status === 'pending' && !found.worked_on
}
