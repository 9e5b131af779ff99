// Applies notifications about a payout or transfer.
import { z } from 'zod'
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { findPayoutByIds, findPayoutByReference, type KnownPayout } from '#domain/payouts/find.ts'
import { isOfOtherMoney } from '#domain/reconciliation/compare.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import type { News } from '#providers/news.ts'
import type { ProcessorPayout } from '#providers/payouts.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { payoutTold, settlingPayout } from '../told.ts'
import { applied, isLook } from './apply.ts'
import { compare, sided, type ComparedNoun } from './drifts.ts'
import { askAgain, over, parkFor, wasDrift, wasParkedFor } from './parked.ts'

export const comparedPayout: ComparedNoun = {
  noun: 'payout',
  ask: async ({ payouts }, reference) => sided(await payouts.findPayout(reference), sideOfPayout),
}

export const payoutNews = { apply: applyPayout, findRow }

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
  const { reference, marked } = news
  const is_look = isLook(notification)
  const find = () => findPayoutByReference(sql, payouts.name, reference)
  // Without our mark and unknown here it belongs to another application, or is one of the processor's own schedule.
  if (!is_look && !marked && (await find()) === undefined)
    return parkFor(context, notification, 'not_ours', { waits_for: reference })
  const looked = await payouts.findPayout(reference)
  if (looked.kind !== 'done') return askAgain(notification, looked)
  const theirs = looked.value
  const payout = theirs === null ? await find() : await ownerOf(context, theirs)
  if (payout === undefined || theirs === null) {
    if (payout !== undefined && (is_look || wasParkedFor(notification, 'not_at_processor'))) {
      const compared = await compare(context, comparedPayout, payout, null)
      if (compared.kind !== 'done') return askAgain(notification, compared)
    }
    if (is_look) return over(notification, 'ignored')
    const reason = theirs === null ? 'not_at_processor' : 'not_known_here'
    return parkFor(context, notification, reason, { waits_for: reference })
  }
  const { tenant_id, id } = payout
  const ids = { tenant_id, payout_id: id }
  const of: SubjectKey = { tenant_id, subject: 'payout', subject_id: id }
  addLogFacts(ids)
  const tells = settlingPayout({ told: payoutTold(ids, theirs), notification_id: notification.id })
  // A payout that has ended here may differ there, and so may its amount, and then no notification will change it.
  const ended = payout.status === 'failed' || payout.status === 'canceled'
  const other = isOfOtherMoney(payout, sideOfPayout(theirs))
  if (!is_look && !ended && !other && !wasDrift(notification))
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
async function ownerOf(
  { sql, payouts }: WorkerContext,
  payout: ProcessorPayout,
): Promise<KnownPayout | undefined> {
  const { sluice_tenant_id, sluice_payout_id } = payout.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, id: sluice_payout_id })
  const known = ids.success && (await findPayoutByIds(sql, ids.data, payout.reference))
  return known || (await findPayoutByReference(sql, payouts.name, payout.reference))
}
