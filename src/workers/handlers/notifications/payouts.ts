// Translates what the processor says of a payout or transfer, for its jobs too, and applies notifications about it.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { findPayoutByIds, findPayoutByReference, type KnownPayout } from '#domain/payouts/find.ts'
import { settlePayouts, type PayoutSettlement, type PayoutTold } from '#domain/payouts/settle.ts'
import { isOfOtherMoney } from '#domain/reconciliation/compare.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import type { News } from '#providers/news.ts'
import type { ProcessorPayout } from '#providers/payouts.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { settling, type Told } from '../../settle.ts'
import { applied, findBoth, idsIn, isLook } from './apply.ts'
import { compare, sided, type ComparedNoun } from './drifts.ts'
import { wasDrift } from './parked.ts'

export const comparedPayout: ComparedNoun = {
  noun: 'payout',
  ask: async ({ payouts }, reference) => sided(await payouts.findPayout(reference), sideOfPayout),
}

export const settlingPayout = settling<Told<PayoutSettlement>>(
  'settle_payout',
  settlePayouts,
  ({ told }) => told.payout_id,
)

export const payoutNews = { apply: applyPayout, findRow }

/** What the processor says of a payout, in our words. */
export function payoutTold(
  ids: { tenant_id: string; payout_id: string },
  { status, reference, arrival_date, returned_minor, failure }: ProcessorPayout,
): PayoutTold {
  return { ...ids, said: status, processor_reference: reference, arrival_date, returned_minor, failure }
}

async function findRow({ sql, payouts }: WorkerContext, { reference }: News) {
  const payout = await findPayoutByReference(sql, payouts.name, reference)
  return payout && { ...payout, compared: comparedPayout }
}

/** The processor's payout as one side of a comparison. */
export function sideOfPayout(payout: ProcessorPayout): Side {
  return {
    status: payout.status,
    amount_minor: payout.amount_minor,
    currency: payout.currency,
    processor_reference: payout.reference,
    out_minor: payout.status === 'paid' ? payout.amount_minor - payout.returned_minor : 0,
  }
}

async function applyPayout(
  context: WorkerContext,
  notification: StoredNotification,
  news: News,
): Promise<Decision> {
  const { sql, payouts } = context
  const { reference } = news
  const both = await findBoth(context, notification, news, {
    compared: comparedPayout,
    find: () => findPayoutByReference(sql, payouts.name, reference),
    ask: () => payouts.findPayout(reference),
    ownerOf: (record) => ownerOf(context, record),
    second: (record) => namedBy(context, record, null),
  })
  if ('decision' in both) return both.decision
  const { row: payout, record: theirs } = both
  const { tenant_id, id } = payout
  const ids = { tenant_id, payout_id: id }
  const of: SubjectKey = { tenant_id, subject: 'payout', subject_id: id }
  addLogFacts(ids)
  const tells = settlingPayout({ told: payoutTold(ids, theirs), notification_id: notification.id })
  // A payout that has ended here may differ there, and so may its amount, and then no notification will change it.
  const ended = payout.status === 'failed' || payout.status === 'canceled'
  const other = isOfOtherMoney(payout, sideOfPayout(theirs))
  if (!isLook(notification) && !ended && !other && !wasDrift(notification))
    return await applied(notification, of, { tells })
  const compareAfter = async () => {
    const options = { reference, news: notification.id }
    return await compare(context, comparedPayout, payout, sideOfPayout(theirs), options)
  }
  return await applied(notification, of, { ...(!other && { tells }), compareAfter })
}

/**
 * Our row of a processor's payout. Our own ids in its metadata come first, because a notification may arrive before the
 * answer that tells us the reference. An object that merely copies our ids is not ours: the row must not have another
 * reference.
 */
async function ownerOf(context: WorkerContext, payout: ProcessorPayout): Promise<KnownPayout | undefined> {
  const { reference } = payout
  return (
    (await namedBy(context, payout, reference)) ??
    (await findPayoutByReference(context.sql, context.payouts.name, reference))
  )
}

async function namedBy({ sql }: WorkerContext, { metadata }: ProcessorPayout, reference: string | null) {
  const ids = idsIn(metadata, 'payout')
  return ids && (await findPayoutByIds(sql, ids, reference))
}
