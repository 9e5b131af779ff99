// Applies provider events about refunds, including refunds that were made in the processor's dashboard.
import { z } from 'zod'
import type { StoredNotification } from '#domain/notifications/notification.ts'
import type { KnownPayment } from '#domain/payments/find.ts'
import { isOfOtherMoney } from '#domain/reconciliation/compare.ts'
import { findRefundByIds, findRefundByReference, type KnownRefund } from '#domain/refunds/find.ts'
import { importRefund } from '#domain/refunds/settle.ts'
import type { News } from '#providers/news.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { applied, isLook } from '../notifications/apply.ts'
import { COMPARED, compare } from '../notifications/drifts.ts'
import { askAgain, over, parkFor, wasDrift, wasParkedFor } from '../notifications/parked.ts'
import { findRowBehind, paymentBehind, waitForRoom } from '../notifications/parts.ts'
import { comparedPayment, filedUnder } from '../payments/effects.ts'
import { comparedRefund, settlingRefund, refundTold, refundFailure, sideOfRefund } from './effects.ts'

export const refundNews = { apply: applyRefund, findRow: findRowBehind }

async function applyRefund(
  context: WorkerContext,
  notification: StoredNotification,
  { reference, part_of, marked }: News,
): Promise<Decision> {
  const { sql, processor } = context
  const is_look = isLook(notification)
  const find = () => findRefundByReference(sql, processor.name, reference)
  // Without our mark and unknown here: first find out whether it belongs to a payment of ours.
  let behind: KnownPayment | undefined
  if (!is_look && !marked && (await find()) === undefined) {
    const found = await paymentBehind(context, notification, part_of)
    if ('decision' in found) return found.decision
    behind = found.payment
  }
  const looked = await processor.findRefund(reference)
  if (looked.kind !== 'done') return askAgain(notification, looked)
  const refund = looked.value
  if (refund === null) {
    const known = await find()
    if (known !== undefined && (is_look || wasParkedFor(notification, 'not_at_processor'))) {
      const compared = await compare(context, comparedRefund, known, null)
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
    of = await bookOutsideRefund(context, behind, refund)
    if (of === undefined) return await waitForRoom(context, notification, behind, refund.payment_reference)
  }
  const { tenant_id, payment_id, id } = of
  const ids = { tenant_id, payment_id, refund_id: id }
  const filed = filedUnder(ids)
  addLogFacts(ids)
  const told = refundTold(ids, refund)
  const theirs = sideOfRefund(refund)
  // One of other money is not what was asked for, although it bears our ids: nothing is posted for it.
  const other = ours !== undefined && isOfOtherMoney(ours, theirs)
  const tells = other ? undefined : settlingRefund({ told, notification_id: notification.id })
  const may_differ = is_look || other || ours?.status === 'failed'
  const was_drift = wasDrift(notification)
  if (!may_differ && !was_drift) return await applied(notification, filed, { ...(tells && { tells }) })
  const compareAfter = async () => {
    const compared = may_differ
      ? await compare(context, comparedRefund, { tenant_id, id }, theirs, { reference })
      : COMPARED
    if (compared.kind !== 'done' || !was_drift) return compared
    const payment = { tenant_id, id: payment_id }
    return await compare(context, comparedPayment, payment, null, { news: notification.id })
  }
  return await applied(notification, filed, { ...(tells && { tells }), compareAfter })
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

// Books a refund that was made in the processor's dashboard. Undefined when it does not fit into our books yet.
async function bookOutsideRefund(
  { sql, processor }: WorkerContext,
  payment: KnownPayment,
  refund: ProcessorRefund,
) {
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
