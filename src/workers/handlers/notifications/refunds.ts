// Applies news of a refund, also of one that was made outside.
import { z } from 'zod'
import type { StoredNotification } from '#domain/notifications.ts'
import { findPaymentByReference, type KnownPayment } from '#domain/payments/find.ts'
import { findRefundByIds, findRefundByReference, type KnownRefund } from '#domain/refunds/find.ts'
import { importRefund } from '#domain/refunds/settle.ts'
import { isMarked, type ProcessorNews, type ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { about } from '../../story.ts'
import { refundFailure, refundTold, settlingRefund } from '../told.ts'
import { applied, isLook, wasDrift } from './apply.ts'
import { COMPARED, compare, sideOfRefund } from './drifts.ts'
import { askAgain, filedUnder, hasWaited, over, parkFor } from './parked.ts'
import { ownerOf } from './payments.ts'

export async function applyRefund(
  context: WorkerContext,
  notification: StoredNotification,
  { reference, payment_reference, marked }: ProcessorNews,
): Promise<Decision> {
  const { sql, processor } = context
  const is_look = isLook(notification)
  const find = () => findRefundByReference(sql, processor.name, reference)
  // Made outside, of a payment of ours or of anybody's: that is found out first.
  let behind: KnownPayment | undefined
  if (!is_look && !marked && (await find()) === undefined) {
    const found = await paymentBehind(context, notification, payment_reference)
    if ('decision' in found) return found.decision
    behind = found.payment
  }
  const looked = await processor.findRefund(reference)
  if (looked.kind !== 'done') return askAgain(notification, looked)
  const refund = looked.value
  if (refund === null) {
    const known = await find()
    if (known !== undefined && (is_look || hasWaited(notification, 'not_at_processor'))) {
      const compared = await compare(context, { ...known, refund_id: known.id }, null)
      if (compared.kind !== 'done') return askAgain(notification, compared)
    }
    return is_look ? over(notification, 'ignored') : parkFor(context, notification, 'not_at_processor')
  }
  if (refund.released_hold) return over(notification, 'ignored')
  const ours = await ourRefund(context, refund)
  let of: { tenant_id: string; payment_id: string; id: string } | undefined = ours
  if (of === undefined) {
    if (behind === undefined) {
      const found = await paymentBehind(context, notification, refund.payment_reference)
      if ('decision' in found) return found.decision
      behind = found.payment
    }
    of = await takeIn(context, behind, refund)
    if (of === undefined) return await waitForRoom(context, notification, behind, refund)
  }
  const payment = { tenant_id: of.tenant_id, payment_id: of.payment_id }
  const ids = { ...payment, refund_id: of.id }
  about(ids)
  const told = refundTold(ids, refund)
  const tells = settlingRefund({ told, notification_id: notification.id })
  const may_differ = is_look || (ours?.status === 'failed' && told.status !== 'failed')
  const was_drift = wasDrift(notification)
  if (!may_differ && !was_drift) return await applied(notification, payment, { tells })
  const compareAfter = async () => {
    const compared = may_differ ? await compare(context, ids, sideOfRefund(refund)) : COMPARED
    if (compared.kind !== 'done' || !was_drift) return compared
    return await compare(context, payment, null, { news: notification.id })
  }
  return await applied(notification, payment, { tells, compareAfter })
}

async function ourRefund(
  { sql, processor }: WorkerContext,
  refund: ProcessorRefund,
): Promise<KnownRefund | undefined> {
  const known = await findRefundByReference(sql, processor.name, refund.reference)
  if (known !== undefined) return known
  const { sluice_tenant_id, sluice_payment_id, sluice_refund_id } = refund.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), payment_id: z.uuid(), id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, payment_id: sluice_payment_id, id: sluice_refund_id })
  return ids.success ? await findRefundByIds(sql, ids.data, refund.reference) : undefined
}

// Whose payment it is that a processor's refund gives back. Only where its reference is not known here the processor is asked:
// it may have our ids, or be another application's.
async function paymentBehind(
  context: WorkerContext,
  notification: StoredNotification,
  reference: string | null,
): Promise<{ payment: KnownPayment } | { decision: Decision }> {
  if (reference === null) return { decision: parkFor(context, notification, 'not_ours') }
  const known = await findPaymentByReference(context.sql, context.processor.name, reference)
  if (known !== undefined) return { payment: known }
  const waitFor = (reason: 'not_ours' | 'not_known_here' | 'not_at_processor') => ({
    decision: parkFor(context, notification, reason, { waits_for: reference }),
  })
  if (notification.reason === 'not_ours') return waitFor('not_ours')
  const looked = await context.processor.findPayment(reference)
  if (looked.kind !== 'done') return { decision: askAgain(notification, looked) }
  if (looked.value === null) return waitFor('not_at_processor')
  const payment = await ownerOf(context, looked.value)
  if (payment !== undefined) return { payment }
  return waitFor(isMarked(looked.value.metadata) ? 'not_known_here' : 'not_ours')
}

// A refund made in the processor's own dashboard: it is in the books there, so it must be in ours. Undefined when it does
// not fit there yet.
async function takeIn({ sql, processor }: WorkerContext, payment: KnownPayment, refund: ProcessorRefund) {
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  const imported = await importRefund(sql, {
    ...of,
    processor: processor.name,
    processor_reference: refund.reference,
    amount_minor: refund.amount_minor,
    failure: refundFailure(refund),
  })
  return imported && { ...of, id: imported.id }
}

// The capture is not known here yet, or what is reserved for refunds of ours leaves no room until the processor refuses
// them: that wakes it. If it takes long, it is a drift.
async function waitForRoom(
  context: WorkerContext,
  notification: StoredNotification,
  payment: KnownPayment,
  { payment_reference }: ProcessorRefund,
): Promise<Decision> {
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  if (hasWaited(notification, 'does_not_fit')) {
    const compared = await compare(context, of, null, { reference: payment_reference })
    if (compared.kind !== 'done') return askAgain(notification, compared)
  }
  return parkFor(context, notification, 'does_not_fit', { waits_for: payment_reference, of: filedUnder(of) })
}
