// Applies provider events about refunds, including refunds that were created in the processor's dashboard.
import { z } from 'zod'
import { metrics } from '#core/metrics.ts'
import type { StoredNotification } from '#domain/notifications/notification.ts'
import type { ExistingPayment } from '#domain/payments/find.ts'
import { findOrigin, marksIn } from '#domain/provider-metadata.ts'
import { hasDifferentMoney } from '#domain/reconciliation/compare.ts'
import { findRefundByIds, findRefundByReference, type ExistingRefund } from '#domain/refunds/find.ts'
import { importRefund } from '#domain/refunds/settle.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { endApplied, isLookup } from '../notifications/apply.ts'
import { COMPARED, compare } from '../notifications/drifts.ts'
import { retryQuery, finish, parkFor, wasDrift, wasParkedFor } from '../notifications/parked.ts'
import { findParentRow, findParentPayment, parkUntilAmountFits } from '../notifications/parent-payment.ts'
import { comparedPayment, paymentKey } from '../payments/effects.ts'
import { comparedRefund, settlingRefund, refundUpdate, refundFailure, sideOfRefund } from './effects.ts'

export const refundEvent = { apply: applyRefund, findRow: findParentRow }

async function applyRefund(
  context: WorkerContext,
  notification: StoredNotification,
  { reference, parent_reference, has_sluice_ids }: ProviderEventTarget,
): Promise<Decision> {
  const { sql, processor } = context
  const is_lookup = isLookup(notification)
  const find = () => findRefundByReference(sql, processor.name, reference)
  // A refund without our ids and without a row here: first check that it belongs to one of our payments.
  let payment: ExistingPayment | undefined
  if (!is_lookup && !has_sluice_ids && (await find()) === undefined) {
    const found = await findParentPayment(context, notification, parent_reference)
    if ('decision' in found) return found.decision
    payment = found.payment
  }
  const lookup = await processor.findRefund(reference)
  if (lookup.kind !== 'done') return retryQuery(notification, lookup)
  const refund = lookup.value
  if (refund === null) {
    const existing = await find()
    if (existing !== undefined && (is_lookup || wasParkedFor(notification, 'not_at_processor'))) {
      const compared = await compare(context, comparedRefund, existing, null)
      if (compared.kind !== 'done') return retryQuery(notification, compared)
    }
    return is_lookup ? finish(notification, 'ignored') : parkFor(context, notification, 'not_at_processor')
  }
  if (refund.released_hold) return finish(notification, 'ignored')
  const ours = await ourRefund(context, refund)
  let of: { tenant_id: string; payment_id: string; id: string } | undefined = ours
  if (of === undefined) {
    if (payment === undefined) {
      const found = await findParentPayment(context, notification, refund.payment_reference)
      if ('decision' in found) return found.decision
      payment = found.payment
    }
    of = await insertRefund(context, payment, refund)
    if (of === undefined)
      return await parkUntilAmountFits(context, notification, payment, refund.payment_reference)
  }
  const { tenant_id, payment_id, id } = of
  const ids = { tenant_id, payment_id, refund_id: id }
  const key = paymentKey(ids)
  addLogFacts(ids)
  const update = refundUpdate(ids, refund)
  const theirs = sideOfRefund(refund)
  // Whether the refund carries our ids, but differs from our request in amount or currency. Nothing is posted for such
  // a refund.
  const other = ours !== undefined && hasDifferentMoney(ours, theirs)
  const effects = other ? undefined : settlingRefund({ update, notification_id: notification.id })
  const may_differ = is_lookup || other || ours?.status === 'failed'
  const was_drift = wasDrift(notification)
  if (!may_differ && !was_drift) return await endApplied(notification, key, { ...(effects && { effects }) })
  const compareAfter = async () => {
    const compared = may_differ
      ? await compare(context, comparedRefund, { tenant_id, id }, theirs, { reference })
      : COMPARED
    if (compared.kind !== 'done' || !was_drift) return compared
    const row = { tenant_id, id: payment_id }
    return await compare(context, comparedPayment, row, null, { except_id: notification.id })
  }
  return await endApplied(notification, key, { ...(effects && { effects }), compareAfter })
}

async function ourRefund(
  { sql, processor }: WorkerContext,
  refund: ProcessorRefund,
): Promise<ExistingRefund | undefined> {
  const existing = await findRefundByReference(sql, processor.name, refund.reference)
  if (existing !== undefined) return existing
  const { sluice_tenant_id, sluice_payment_id, sluice_refund_id } = refund.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), payment_id: z.uuid(), id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, payment_id: sluice_payment_id, id: sluice_refund_id })
  return ids.success ? await findRefundByIds(sql, ids.data, refund.reference) : undefined
}

/**
 * Inserts a refund that has no row: it was created in the processor's dashboard, or created here and lost. Undefined if
 * it does not fit our ledger yet.
 */
async function insertRefund(
  { sql, log, processor }: WorkerContext,
  payment: ExistingPayment,
  refund: ProcessorRefund,
) {
  const { metadata, reason } = refund
  const marks = marksIn(metadata, 'refund')
  const is_own = marks?.tenant_id === payment.tenant_id && (await findOrigin(sql, metadata)).is_ours
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  const imported = await importRefund(sql, {
    ...of,
    processor: processor.name,
    processor_reference: refund.reference,
    amount_minor: refund.amount_minor,
    failure: refundFailure(refund),
    own: is_own ? { ...marks, reason } : null,
  })
  if (is_own && imported !== undefined) {
    log.warn({ ...of, refund_id: marks.id, reference: refund.reference }, 'a lost refund was made again')
    metrics.rowsRecovered.inc({ resource: 'refund' })
  }
  return imported && { ...of, id: imported.id }
}
