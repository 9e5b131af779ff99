// Applies provider events about payouts and transfers.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { findPayoutByIds, findPayoutByReference, type ExistingPayout } from '#domain/payouts/find.ts'
import { recoverPayout } from '#domain/payouts/recover.ts'
import { idIn, type ObjectMarks } from '#domain/provider-metadata.ts'
import { hasDifferentMoney } from '#domain/reconciliation/compare.ts'
import type { ResourceKey } from '#domain/resources.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { ProcessorPayout } from '#providers/payouts.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { endApplied, findRowAndRecord, isLookup } from '../notifications/apply.ts'
import { compare } from '../notifications/drifts.ts'
import { wasDrift } from '../notifications/parked.ts'
import { findingWithinMode } from '../notifications/rows.ts'
import { comparedPayout, settlingPayout, payoutUpdate, sideOfPayout } from './effects.ts'

const payoutRows = findingWithinMode<ExistingPayout>({
  resource: 'payout',
  byReference: ({ sql, payouts }, reference) => findPayoutByReference(sql, payouts.name, reference),
  byIds: ({ sql }, ids, reference) => findPayoutByIds(sql, ids, reference),
})

export const payoutEvent = { apply: applyPayout, findRow }

async function findRow(context: WorkerContext, { reference }: ProviderEventTarget) {
  const payout = await payoutRows.byReference(context, reference)
  return payout && { ...payout, compared: comparedPayout }
}

/** Makes the row of a payout again. */
async function recover(
  { sql, payouts }: WorkerContext,
  marks: ObjectMarks,
  { reference, amount_minor, currency, destination, description, metadata }: ProcessorPayout,
): Promise<boolean | { problem: string }> {
  const recipient_id = idIn(metadata, 'recipient_id')
  if (recipient_id === null) return { problem: 'its metadata names no recipient' }
  const processor = { processor: payouts.name, processor_reference: reference }
  return await recoverPayout(sql, {
    ...marks,
    amount_minor,
    currency,
    recipient_id,
    destination,
    description,
    ...processor,
  })
}

async function applyPayout(
  context: WorkerContext,
  notification: StoredNotification,
  target: ProviderEventTarget,
): Promise<Decision> {
  const { payouts } = context
  const { reference } = target
  const both = await findRowAndRecord(context, notification, target, {
    compared: comparedPayout,
    rows: payoutRows,
    query: () => payouts.findPayout(reference),
    sideOf: sideOfPayout,
    recover,
    park_duplicates: true,
  })
  if ('decision' in both) return both.decision
  const { row: payout, record: theirs } = both
  const { tenant_id, id } = payout
  const ids = { tenant_id, payout_id: id }
  const key: ResourceKey = { tenant_id, resource: 'payout', resource_id: id }
  addLogFacts(ids)
  const effects = settlingPayout({ update: payoutUpdate(ids, theirs), notification_id: notification.id })
  // A payout that is final here may have another status at the provider, or its amount may differ. Then no
  // notification changes our row, so the row is compared with the provider's record.
  const is_final = payout.status === 'failed' || payout.status === 'canceled'
  const differs = hasDifferentMoney(payout, sideOfPayout(theirs))
  if (!isLookup(notification) && !is_final && !differs && !wasDrift(notification))
    return await endApplied(notification, key, { effects })
  const compareAfter = async () => {
    const options = { reference, except_id: notification.id }
    return await compare(context, comparedPayout, payout, sideOfPayout(theirs), options)
  }
  return await endApplied(notification, key, { ...(!differs && { effects }), compareAfter })
}
