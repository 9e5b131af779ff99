// Applies provider events about refunds, including refunds that were created in the processor's dashboard.
import { z } from 'zod'
import { metrics } from '#core/metrics.ts'
import type { StoredNotification } from '#domain/notifications/notification.ts'
import type { ExistingPayment } from '#domain/payments/find.ts'
import { findOrigin, idIn, marksIn } from '#domain/provider-metadata.ts'
import { hasDifferentMoney } from '#domain/reconciliation/compare.ts'
import { findRefundByIds, findRefundByReference, type ExistingRefund } from '#domain/refunds/find.ts'
import { importRefund } from '#domain/refunds/settle.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts, isTestAttempt } from '../../job-log.ts'
import { endApplied, isLookup } from '../notifications/apply.ts'
import { COMPARED, compare } from '../notifications/drifts.ts'
import { parkOrphan } from '../notifications/orphans.ts'
import { retryQuery, finish, parkFor, wasDrift, wasParkedFor } from '../notifications/parked.ts'
import { findParentRow, findParentPayment, parkUntilAmountFits } from '../notifications/parent-payment.ts'
import { withinMode } from '../notifications/rows.ts'
import { comparedPayment, paymentKey } from '../payments/effects.ts'
import { comparedRefund, settlingRefund, refundUpdate, refundFailure, sideOfRefund } from './effects.ts'

export const refundEvent = { apply: applyRefund, findRow: findParentRow }

async function applyRefund(
  context: WorkerContext,
  notification: StoredNotification,
  { reference, parent_reference, has_sluice_ids }: ProviderEventTarget,
): Promise<Decision> {
  const { processor } = context
  const is_lookup = isLookup(notification)
  const find = () => findByReference(context, reference)
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
  let ours = await ourRefund(context, refund)
  let of: { tenant_id: string; payment_id: string; id: string } | undefined = ours
  if (of === undefined) {
    if (payment === undefined) {
      const found = await findParentPayment(context, notification, refund.payment_reference)
      if ('decision' in found) return found.decision
      payment = found.payment
    }
    const inserted = await insertRefund(context, payment, refund)
    if (inserted === undefined)
      return await parkUntilAmountFits(context, notification, payment, refund.payment_reference)
    // The row may have been made meanwhile. A row of another refund shows that the metadata was copied.
    if (inserted === 'exists') ours = await ourRefund(context, refund)
    of = ours ?? (typeof inserted === 'object' ? inserted : undefined)
    if (of === undefined)
      return await parkOrphan(context, notification, {
        resource: 'refund',
        reference,
        tenant_id: payment.tenant_id,
        problem: 'its metadata names another refund',
        theirs: sideOfRefund(refund),
      })
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

async function findByReference(
  context: WorkerContext,
  reference: string,
): Promise<ExistingRefund | undefined> {
  const { sql, processor } = context
  return await withinMode(context, await findRefundByReference(sql, processor.name, reference))
}

async function ourRefund(
  context: WorkerContext,
  refund: ProcessorRefund,
): Promise<ExistingRefund | undefined> {
  const existing = await findByReference(context, refund.reference)
  if (existing !== undefined) return existing
  const { sluice_tenant_id, sluice_payment_id, sluice_refund_id } = refund.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), payment_id: z.uuid(), id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, payment_id: sluice_payment_id, id: sluice_refund_id })
  if (!ids.success) return undefined
  return await withinMode(context, await findRefundByIds(context.sql, ids.data, refund.reference))
}

/**
 * Inserts a refund that has no row: it was created in the processor's dashboard, or created here and lost. `exists` and
 * `copied`: its metadata names a refund that has a row, or a refund of another payment. Undefined if it does not fit
 * our ledger yet.
 */
async function insertRefund(
  { sql, log, processor }: WorkerContext,
  payment: ExistingPayment,
  refund: ProcessorRefund,
): Promise<{ tenant_id: string; payment_id: string; id: string } | 'exists' | 'copied' | undefined> {
  const { metadata, reason } = refund
  const marks = marksIn(metadata, 'refund')
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  const own = marks !== undefined && (await findOrigin(sql, metadata)).is_ours ? { ...marks, reason } : null
  if (own !== null && (own.tenant_id !== of.tenant_id || idIn(metadata, 'payment_id') !== of.payment_id))
    return 'copied'
  const imported = await importRefund(sql, {
    ...of,
    processor: processor.name,
    processor_reference: refund.reference,
    amount_minor: refund.amount_minor,
    failure: refundFailure(refund),
    own,
  })
  if (typeof imported !== 'object') return imported
  if (own !== null) {
    log.warn({ ...of, refund_id: own.id, reference: refund.reference }, 'a lost refund was made again')
    if (!isTestAttempt()) metrics.rowsRecovered.inc({ resource: 'refund' })
  }
  return { ...of, id: imported.id }
}
