// Applies provider events about top-ups.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { isOfOtherMoney } from '#domain/reconciliation/compare.ts'
import { findTopUpByIds, findTopUpByReference, type KnownTopUp } from '#domain/top-ups/find.ts'
import type { News } from '#providers/news.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { applied, findBoth, type RowsOf } from '../notifications/apply.ts'
import { compare } from '../notifications/drifts.ts'
import { comparedTopUp, settlingTopUp, topUpTold, sideOfTopUp } from './effects.ts'

const topUpRows: RowsOf<KnownTopUp> = {
  noun: 'top_up',
  byReference: ({ sql, top_ups }, reference) => findTopUpByReference(sql, top_ups.name, reference),
  byIds: ({ sql }, ids, reference) => findTopUpByIds(sql, ids, reference),
}

export const topUpNews = { apply: applyTopUp, findRow }

async function findRow({ sql, top_ups }: WorkerContext, { reference }: News) {
  const top_up = await findTopUpByReference(sql, top_ups.name, reference)
  return top_up && { ...top_up, compared: comparedTopUp }
}

async function applyTopUp(
  context: WorkerContext,
  notification: StoredNotification,
  news: News,
): Promise<Decision> {
  const { reference } = news
  const both = await findBoth(context, notification, news, {
    compared: comparedTopUp,
    rows: topUpRows,
    ask: () => context.top_ups.findTopUp(reference),
    seconds: true,
  })
  if ('decision' in both) return both.decision
  const { row: top_up, record } = both
  const { tenant_id, id: top_up_id } = top_up
  addLogFacts({ tenant_id, top_up_id })
  const told = topUpTold({ tenant_id, top_up_id }, record)
  const tells = settlingTopUp({ told, notification_id: notification.id })
  const of = { tenant_id, subject: 'top_up', subject_id: top_up_id } as const
  // One of other money is not what was asked for, although it bears our ids: nothing is posted for it, nor is its
  // reference ours.
  const theirs = sideOfTopUp(record)
  const other = isOfOtherMoney(top_up, theirs)
  // Ours may have ended otherwise, also since it was read, and then no notification will change it.
  const compareAfter = () =>
    compare(context, comparedTopUp, top_up, theirs, { reference, news: notification.id })
  return await applied(notification, of, { ...(!other && { tells }), compareAfter })
}
