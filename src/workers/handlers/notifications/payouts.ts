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
import { applied, findBoth, isLook, type RowsOf } from './apply.ts'
import { compare, sided, type ComparedNoun } from './drifts.ts'
import { wasDrift } from './parked.ts'

const payoutRows: RowsOf<KnownPayout> = {
  noun: 'payout',
  byReference: ({ sql, payouts }, reference) => findPayoutByReference(sql, payouts.name, reference),
  byIds: ({ sql }, ids, reference) => findPayoutByIds(sql, ids, reference),
}

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
  const { payouts } = context
  const { reference } = news
  const both = await findBoth(context, notification, news, {
    compared: comparedPayout,
    rows: payoutRows,
    ask: () => payouts.findPayout(reference),
    seconds: true,
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
