// Applies notifications: whatever they claim, the processor is asked how the object stands now, and that is applied.
import { z } from 'zod'
import type { Outcome } from '#core/outcome.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { findNotification, storeNotifications } from '#domain/notifications.ts'
import { findPaymentByIds, findPaymentByReference, type KnownPayment } from '#domain/payments/find.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import { findOurs, WAITS_MS } from '#domain/reconciliation/drift.ts'
import { LOOK_KIND, lookAt } from '#domain/reconciliation/looks.ts'
import { findRefundByIds, findRefundByReference, type KnownRefund } from '#domain/refunds/find.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import { importRefund } from '#domain/refunds/settle.ts'
import type { PayloadOf } from '#jobs/index.ts'
import {
  isMarked,
  type ProcessorNews,
  type ProcessorPayment,
  type ProcessorRefund,
} from '#providers/payments.ts'
import type { WorkerContext } from '../context.ts'
import { COMPARED, compare, sideOfPayment, sideOfRefund } from '../recurring/drifts.ts'
import { newsOf } from '../news.ts'
import { hasWaited, lookAgain, note, park, type News } from '../recurring/parked.ts'
import { fencedUnless, toldOf } from './payments.ts'
import { failureOf, toldOfRefund } from './refunds.ts'
import { goesOn, succeeded } from '../settlement.ts'
import { about } from '../story.ts'

type NotificationJob = ClaimedJob & { payload: PayloadOf<'notification.apply'> }

/** Applies one notification; any order and any number of them end in the same state. */
export async function applyNotification(context: WorkerContext, job: NotificationJob): Promise<Settlement> {
  const notification = await findNotification(context.sql, job.payload.notification_id)
  if (notification === undefined || notification.state === 'applied')
    return await note(context, succeeded(job), 'applied')
  const news = { job, notification }
  const told = newsOf(context.processor, notification)
  if (told === null) return await note(context, succeeded(job), 'ignored')
  if (told.subject === 'payment') return await applyPayment(context, news, told)
  if (told.subject === 'refund') return await applyRefund(context, news, told)
  throw new Error(`nobody here applies news of a ${told.subject}`)
}

async function applyPayment(
  context: WorkerContext,
  news: News,
  { reference, marked }: ProcessorNews,
): Promise<Settlement> {
  const { sql, processor, settle } = context
  const { job } = news
  const is_look = isLook(news)
  const find = () => findPaymentByReference(sql, processor.name, reference)
  // Another application's need not be fetched to be known as such.
  if (!is_look && !marked && (await find()) === undefined)
    return await park(context, news, 'not_ours', { waits_for: reference })
  const looked = await processor.findPayment(reference)
  if (looked.kind !== 'done') return await lookAgain(context, news, looked)
  const payment = looked.value === null ? await find() : await ownerOf(context, looked.value)
  if (payment !== undefined && looked.value === null && (is_look || hasWaited(news, 'not_at_processor'))) {
    const compared = await compare(context, { tenant_id: payment.tenant_id, payment_id: payment.id }, null)
    if (compared.kind !== 'done') return await lookAgain(context, news, compared)
  }
  if (payment === undefined || looked.value === null) {
    if (is_look) return await note(context, succeeded(job), 'ignored')
    const reason = looked.value === null ? 'not_at_processor' : 'not_known_here'
    return await park(context, news, reason, { waits_for: reference })
  }
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  about(of)
  const theirs = sideOfPayment(looked.value)
  const differs = disagreement('payment', { ours: payment, worked_on: true, waiting: [] }, theirs)
  const patient = !hasWaited(news, 'refunds_differ')
  if (is_look && differs?.passing === true && patient)
    return await park(context, news, 'refunds_differ', { waits_for: reference, of: filedUnder(of) })
  const told = toldOf(context, of, looked.value)
  const orphaned = payment.status === 'pending' && (await isOrphaned(context, of))
  const apply =
    told &&
    ((settlement: Settlement) => settle.payment({ ...settlement, told, notification_id: job.id, orphaned }))
  if (!is_look && differs === null && !wasDrift(news)) return await settleNews(context, news, of, { apply })
  // What is settled here may stand otherwise there, and then no news moves it.
  const compareAfter = async () => {
    const compared = await compare(context, of, theirs, { patient, news: job.id })
    if (compared.kind === 'done' && compared.value !== null) {
      const name = `${compared.value.since}:${theirs.amount_refunded_minor} refunded`
      const look = lookAt(processor.name, { subject: 'payment', reference }, name)
      await storeNotifications(sql, [{ ...look, rung: false, request_id: null }])
    }
    return compared
  }
  return await settleNews(context, news, of, { apply, compareAfter })
}

async function applyRefund(context: WorkerContext, news: News, told: ProcessorNews): Promise<Settlement> {
  const { sql, processor, settle } = context
  const { job } = news
  const is_look = isLook(news)
  // Made outside, of a payment of ours or of anybody's: that is found out first.
  let behind: KnownPayment | undefined
  if (
    !is_look &&
    !told.marked &&
    (await findRefundByReference(sql, processor.name, told.reference)) === undefined
  ) {
    const found = await paymentBehind(context, news, told.payment_reference)
    if ('settlement' in found) return found.settlement
    behind = found.payment
  }
  const looked = await processor.findRefund(told.reference)
  if (looked.kind !== 'done') return await lookAgain(context, news, looked)
  const refund = looked.value
  if (refund === null) {
    const known = await findRefundByReference(sql, processor.name, told.reference)
    if (known !== undefined && (is_look || hasWaited(news, 'not_at_processor'))) {
      const compared = await compare(context, { ...known, refund_id: known.id }, null)
      if (compared.kind !== 'done') return await lookAgain(context, news, compared)
    }
    return is_look
      ? await note(context, succeeded(job), 'ignored')
      : await park(context, news, 'not_at_processor')
  }
  if (refund.released_hold) return await note(context, succeeded(job), 'ignored')
  const ours = await ourRefund(context, refund)
  let of: { tenant_id: string; payment_id: string; id: string } | undefined = ours
  if (of === undefined) {
    if (behind === undefined) {
      const found = await paymentBehind(context, news, refund.payment_reference)
      if ('settlement' in found) return found.settlement
      behind = found.payment
    }
    of = await takeIn(context, behind, refund)
    if (of === undefined) return await waitForRoom(context, news, behind, refund)
  }
  const payment = { tenant_id: of.tenant_id, payment_id: of.payment_id }
  const ids = { ...payment, refund_id: of.id }
  about(ids)
  const heard = toldOfRefund(ids, refund)
  const apply = (settlement: Settlement) =>
    settle.refund({ ...settlement, told: heard, notification_id: job.id })
  const may_differ = is_look || (ours?.status === 'failed' && heard.status !== 'failed')
  if (!may_differ && !wasDrift(news)) return await settleNews(context, news, payment, { apply })
  const compareAfter = async () => {
    const compared = may_differ ? await compare(context, ids, sideOfRefund(refund)) : COMPARED
    if (compared.kind !== 'done' || !wasDrift(news)) return compared
    return await compare(context, payment, null, { news: job.id })
  }
  return await settleNews(context, news, payment, { apply, compareAfter })
}

// The job of an authorization stays open until its outcome is known. One that an earlier version closed before is moved by news.
async function isOrphaned(
  { sql }: WorkerContext,
  { tenant_id, payment_id }: { tenant_id: string; payment_id: string },
): Promise<boolean> {
  const found = await findOurs(sql, { tenant_id, subject: 'payment', subject_id: payment_id })
  return found?.ours.status === 'pending' && !found.worked_on
}

// News of a payment and of its refunds are filed under the payment.
function filedUnder({ tenant_id, payment_id }: { tenant_id: string; payment_id: string }): SubjectKey {
  return { tenant_id, subject: 'payment', subject_id: payment_id }
}

function isLook({ notification }: News): boolean {
  return notification.kind === LOOK_KIND
}

// That it was parked may have been shown as a drift of its payment.
function wasDrift({ notification }: News): boolean {
  return (notification.parked_ms ?? 0) >= WAITS_MS
}

// Applies news and ends its job. Where it is compared after that, the job ends when that is done: it comes again when the
// processor gives no answer, or when its worker is killed.
async function settleNews(
  context: WorkerContext,
  news: News,
  of: { tenant_id: string; payment_id: string },
  {
    apply,
    compareAfter,
  }: {
    apply?: ((settlement: Settlement) => Promise<boolean>) | undefined
    compareAfter?: () => Promise<Outcome<unknown>>
  },
): Promise<Settlement> {
  const settlement = succeeded(news.job)
  if (compareAfter !== undefined) {
    if (apply !== undefined && !(await apply(goesOn(news.job)))) return fencedUnless(false, settlement)
    const compared = await compareAfter()
    if (compared.kind !== 'done') return await lookAgain(context, news, compared)
  } else if (apply !== undefined) return fencedUnless(await apply(settlement), settlement)
  return await note(context, settlement, 'applied', { of: filedUnder(of) })
}

// By our own ids where the processor kept them: the news may be faster than the answer that names its reference. A copy
// of them on something else makes that not ours.
async function ownerOf(context: WorkerContext, payment: ProcessorPayment): Promise<KnownPayment | undefined> {
  const { sluice_tenant_id, sluice_payment_id } = payment.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, id: sluice_payment_id })
  const known = ids.success && (await findPaymentByIds(context.sql, ids.data, payment.reference))
  return known || (await findPaymentByReference(context.sql, context.processor.name, payment.reference))
}

async function ourRefund(context: WorkerContext, refund: ProcessorRefund): Promise<KnownRefund | undefined> {
  const known = await findRefundByReference(context.sql, context.processor.name, refund.reference)
  if (known !== undefined) return known
  const { sluice_tenant_id, sluice_payment_id, sluice_refund_id } = refund.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), payment_id: z.uuid(), id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, payment_id: sluice_payment_id, id: sluice_refund_id })
  return ids.success ? await findRefundByIds(context.sql, ids.data, refund.reference) : undefined
}

// Whose payment it is that a processor's refund gives back. Only where its reference is not known here the processor is asked:
// it may have our ids, or be another application's.
async function paymentBehind(
  context: WorkerContext,
  news: News,
  reference: string | null,
): Promise<{ payment: KnownPayment } | { settlement: Settlement }> {
  if (reference === null) return { settlement: await park(context, news, 'not_ours') }
  const known = await findPaymentByReference(context.sql, context.processor.name, reference)
  if (known !== undefined) return { payment: known }
  const parkFor = async (reason: 'not_ours' | 'not_known_here' | 'not_at_processor') => ({
    settlement: await park(context, news, reason, { waits_for: reference }),
  })
  if (news.notification.reason === 'not_ours') return await parkFor('not_ours')
  const looked = await context.processor.findPayment(reference)
  if (looked.kind !== 'done') return { settlement: await lookAgain(context, news, looked) }
  if (looked.value === null) return await parkFor('not_at_processor')
  const payment = await ownerOf(context, looked.value)
  if (payment !== undefined) return { payment }
  return await parkFor(isMarked(looked.value.metadata) ? 'not_known_here' : 'not_ours')
}

// A refund made in the processor's own dashboard: it is in the books there, so it must be in ours. Undefined when it does
// not fit there yet.
async function takeIn(context: WorkerContext, payment: KnownPayment, refund: ProcessorRefund) {
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  const imported = await importRefund(context.sql, {
    ...of,
    processor: context.processor.name,
    processor_reference: refund.reference,
    amount_minor: refund.amount_minor,
    failure: failureOf(refund),
  })
  return imported && { ...of, id: imported.id }
}

// The capture is not known here yet, or what is reserved for refunds of ours leaves no room until the processor refuses
// them: that wakes it. If it takes long, it is a drift.
async function waitForRoom(
  context: WorkerContext,
  news: News,
  payment: KnownPayment,
  { payment_reference }: ProcessorRefund,
): Promise<Settlement> {
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  if (hasWaited(news, 'does_not_fit')) {
    const compared = await compare(context, of, null, { reference: payment_reference })
    if (compared.kind !== 'done') return await lookAgain(context, news, compared)
  }
  return await park(context, news, 'does_not_fit', { waits_for: payment_reference, of: filedUnder(of) })
}
