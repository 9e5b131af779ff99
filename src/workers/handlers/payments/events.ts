// Applies provider events about payments.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import type { KnownPayment } from '#domain/payments/find.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import { lookAt } from '#domain/reconciliation/looks.ts'
import type { News } from '#providers/news.ts'
import type { ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import { done, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { cancelDuplicate, isUndoableDuplicate, mayBeDuplicate } from '../duplicates/effects.ts'
import { applied, findBoth, isLook } from '../notifications/apply.ts'
import { compare } from '../notifications/drifts.ts'
import { parkFor, wasDrift, wasParkedFor } from '../notifications/parked.ts'
import {
  paymentRows,
  comparedPayment,
  settlingPayment,
  paymentTold,
  findRow,
  filedUnder,
  sideOfPayment,
} from './effects.ts'

export const paymentNews = {
  apply: applyPayment,
  findRow: async (context: WorkerContext, { reference }: News) => await findRow(context, reference),
}

async function applyPayment(
  context: WorkerContext,
  notification: StoredNotification,
  news: News,
): Promise<Decision> {
  const { sql, processor } = context
  const { reference } = news
  const is_look = isLook(notification)
  const undo = async (row: KnownPayment, record: ProcessorPayment) => {
    const same = record.amount_minor === row.amount_minor && record.currency === row.currency
    if (!same || !(await isUndoableDuplicate(context, 'payment', row, record))) return undefined
    return done({ tells: cancelDuplicate('payment', row, record.reference, notification.id) })
  }
  const both = await findBoth(context, notification, news, {
    compared: comparedPayment,
    rows: paymentRows,
    ask: () => processor.findPayment(reference),
    seconds: true,
    undo,
    // A hold is taken as ours, whichever call made it.
    mayBeSecond: async ({ processor_reference, ...row }, { status }) =>
      status === 'canceled' &&
      (await mayBeDuplicate(context, 'payment', { ...row, provider_reference: processor_reference })),
  })
  if ('decision' in both) return both.decision
  const { row: payment, record } = both
  // The first call had an effect after all. Its second one was refused, or was not made: the payment was canceled.
  const has_none =
    payment.status === 'failed' || (payment.status === 'canceled' && payment.processor_reference === null)
  const undone = has_none ? await undo(payment, record) : undefined
  if (undone !== undefined) return undone
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  addLogFacts(of)
  const theirs = sideOfPayment(record)
  const differs = disagreement('payment', { ours: payment, worked_on: true, parked: [] }, theirs)
  const patient = !wasParkedFor(notification, 'refunds_differ')
  if (is_look && differs?.passing === true && patient)
    return parkFor(context, notification, 'refunds_differ', { waits_for: reference, of: filedUnder(of) })
  const told = paymentTold(context, of, record)
  const tells = told && settlingPayment({ told, notification_id: notification.id })
  if (!is_look && differs === null && !wasDrift(notification))
    return await applied(notification, filedUnder(of), { tells })
  // A payment that is settled here may differ there, and then no notification will change it.
  const compareAfter = async () => {
    const options = { patient, reference, news: notification.id }
    const compared = await compare(context, comparedPayment, payment, theirs, options)
    if (compared.kind === 'done' && compared.value !== null) {
      const name = `${compared.value.since}:${theirs.amount_refunded_minor} refunded`
      const look = lookAt(processor.name, { subject: 'payment', reference }, name)
      await storeNotifications(sql, [look])
    }
    return compared
  }
  return await applied(notification, filedUnder(of), { tells, compareAfter })
}
