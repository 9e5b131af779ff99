// Applies provider events about top-ups.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import type { ObjectMarks } from '#domain/provider-metadata.ts'
import { hasDifferentMoney } from '#domain/reconciliation/compare.ts'
import { findTopUpByIds, findTopUpByReference, type ExistingTopUp } from '#domain/top-ups/find.ts'
import { recoverTopUp } from '#domain/top-ups/recover.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { ProcessorTopUp } from '#providers/top-ups.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { endApplied, findRowAndRecord } from '../notifications/apply.ts'
import { compare } from '../notifications/drifts.ts'
import { findingWithinMode } from '../notifications/rows.ts'
import { comparedTopUp, settlingTopUp, topUpUpdate, sideOfTopUp } from './effects.ts'

const topUpRows = findingWithinMode<ExistingTopUp>({
  resource: 'top_up',
  byReference: ({ sql, top_ups }, reference) => findTopUpByReference(sql, top_ups.name, reference),
  byIds: ({ sql }, ids, reference) => findTopUpByIds(sql, ids, reference),
})

export const topUpEvent = { apply: applyTopUp, findRow }

async function findRow(context: WorkerContext, { reference }: ProviderEventTarget) {
  const top_up = await topUpRows.byReference(context, reference)
  return top_up && { ...top_up, compared: comparedTopUp }
}

/** Makes the row of a top-up again. */
async function recover(
  { sql, top_ups }: WorkerContext,
  marks: ObjectMarks,
  { reference, amount_minor, currency, description }: ProcessorTopUp,
): Promise<boolean> {
  const processor = { processor: top_ups.name, processor_reference: reference }
  return await recoverTopUp(sql, { ...marks, amount_minor, currency, description, ...processor })
}

async function applyTopUp(
  context: WorkerContext,
  notification: StoredNotification,
  target: ProviderEventTarget,
): Promise<Decision> {
  const { reference } = target
  const both = await findRowAndRecord(context, notification, target, {
    compared: comparedTopUp,
    rows: topUpRows,
    query: () => context.top_ups.findTopUp(reference),
    sideOf: sideOfTopUp,
    recover,
    park_duplicates: true,
  })
  if ('decision' in both) return both.decision
  const { row: top_up, record } = both
  const { tenant_id, id: top_up_id } = top_up
  addLogFacts({ tenant_id, top_up_id })
  const update = topUpUpdate({ tenant_id, top_up_id }, record)
  const effects = settlingTopUp({ update, notification_id: notification.id })
  const key = { tenant_id, resource: 'top_up', resource_id: top_up_id } as const
  // If a top-up with our ids differs from our request in amount or currency, nothing is posted for it, and its
  // reference is not stored.
  const theirs = sideOfTopUp(record)
  const differs = hasDifferentMoney(top_up, theirs)
  // Our top-up may have another final status, and then no notification changes our row. So the row is compared with
  // the provider's record.
  const compareAfter = () =>
    compare(context, comparedTopUp, top_up, theirs, { reference, except_id: notification.id })
  return await endApplied(notification, key, { ...(!differs && { effects }), compareAfter })
}
