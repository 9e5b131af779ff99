// Applies provider events about payouts and transfers.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { findPayoutByIds, findPayoutByReference, type KnownPayout } from '#domain/payouts/find.ts'
import { isOfOtherMoney } from '#domain/reconciliation/compare.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import type { News } from '#providers/news.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { applied, findBoth, isLook, type RowsOf } from '../notifications/apply.ts'
import { compare } from '../notifications/drifts.ts'
import { wasDrift } from '../notifications/parked.ts'
import { comparedPayout, settlingPayout, payoutTold, sideOfPayout } from './effects.ts'

const payoutRows: RowsOf<KnownPayout> = {
  noun: 'payout',
  byReference: ({ sql, payouts }, reference) => findPayoutByReference(sql, payouts.name, reference),
  byIds: ({ sql }, ids, reference) => findPayoutByIds(sql, ids, reference),
}

export const payoutNews = { apply: applyPayout, findRow }

async function findRow({ sql, payouts }: WorkerContext, { reference }: News) {
  const payout = await findPayoutByReference(sql, payouts.name, reference)
  return payout && { ...payout, compared: comparedPayout }
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
