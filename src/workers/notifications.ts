// Applies notifications: whatever they claim, the processor is asked how the object stands now, and that is applied.
import { z } from 'zod'
import type { ClaimedJob, Settlement } from '#domain/jobs.ts'
import { findNotification, NOT_AT_PROCESSOR } from '#domain/notifications.ts'
import { findPaymentByIds, findPaymentByReference, type KnownPayment } from '#domain/payments/payment.ts'
import { disagreement } from '#domain/reconciliation/compare.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import { findRefundByIds, findRefundByReference, importRefund, type KnownRefund } from '#domain/refunds.ts'
import type { PayloadOf } from '#jobs/index.ts'
import type { ProcessorPayment, ProcessorRefund } from '#providers/processor.ts'
import type { WorkerContext } from './context.ts'
import { compare, sideOfPayment, sideOfRefund } from './drifts.ts'
import { fencedUnless, lookFailed, toldOf } from './payments.ts'
import { failureOf, toldOfRefund } from './refunds.ts'
import { retried, returned, succeeded } from './settlement.ts'
import { about } from './story.ts'

type NotificationJob = ClaimedJob & { payload: PayloadOf<'notification.apply'> }

const PARKED_MS = 3_600_000

/** What we need of an event; everything else is asked for. */
const told = z.object({
  data: z.object({
    object: z.object({ object: z.string(), id: z.string(), payment_intent: z.string().nullish() }),
  }),
})

/** Applies one notification; any order and any number of them end in the same state. */
export async function applyNotification(context: WorkerContext, job: NotificationJob): Promise<Settlement> {
  const notification = await findNotification(context.sql, job.payload.notification_id)
  if (notification === undefined || notification.state === 'applied')
    return await note(context, job, 'applied')
  const event = told.safeParse(notification.payload)
  if (!event.success) return await note(context, job, 'ignored')
  const { object, id, payment_intent } = event.data.data.object
  const is_look = notification.kind === LOOK_KIND
  if (object === 'payment_intent') return await applyPayment(context, job, id, is_look)
  if (object === 'refund') return await applyRefund(context, job, id, is_look)
  // A charge changes with its payment. Its refunds come as events of their own: `charge.refunded` also fires when an
  // uncaptured hold is released.
  if (object === 'charge' && payment_intent != null)
    return await applyPayment(context, job, payment_intent, false)
  return await note(context, job, 'ignored')
}

async function applyPayment(
  context: WorkerContext,
  job: NotificationJob,
  reference: string,
  is_look: boolean,
): Promise<Settlement> {
  const looked = await context.processor.findPayment(reference)
  if (looked.kind !== 'done') return await settleLookFailed(context, job, looked)
  const payment =
    looked.value === null
      ? await findPaymentByReference(context.sql, context.processor.name, reference)
      : await ownerOf(context, looked.value)
  const theirs = looked.value && sideOfPayment(looked.value)
  if (is_look && payment !== undefined && looked.value === null)
    await compare(context, { tenant_id: payment.tenant_id, payment_id: payment.id }, null)
  if (payment === undefined || looked.value === null) {
    if (is_look) return await note(context, job, 'ignored')
    return await note(context, job, 'parked', looked.value === null ? NOT_AT_PROCESSOR : undefined)
  }
  const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
  about(of)
  const news = toldOf(context, of, looked.value)
  const settlement =
    news === undefined
      ? await note(context, job, 'applied')
      : await settleNews(job, (settled) =>
          context.settle.payment({ ...settled, told: news, notification_id: job.payload.notification_id }),
        )
  // What is settled here may stand otherwise there, and then no news moves it.
  if (is_look || disagreement('payment', { ours: payment, worked_on: true }, theirs) !== null)
    await compare(context, of, theirs)
  return settlement
}

async function applyRefund(
  context: WorkerContext,
  job: NotificationJob,
  reference: string,
  is_look: boolean,
): Promise<Settlement> {
  const looked = await context.processor.findRefund(reference)
  if (looked.kind !== 'done') return await settleLookFailed(context, job, looked)
  if (looked.value === null) {
    if (!is_look) return await note(context, job, 'parked', NOT_AT_PROCESSOR)
    const ours = await findRefundByReference(context.sql, context.processor.name, reference)
    if (ours !== undefined) await compare(context, { ...ours, refund_id: ours.id }, null)
    return await note(context, job, 'ignored')
  }
  if (looked.value.released_hold) return await note(context, job, 'ignored')
  const ours = await ourRefund(context, looked.value)
  const of = ours ?? (await takeIn(context, looked.value))
  if (of === 'unknown payment') return await note(context, job, 'parked')
  if (of === 'not yet') {
    const settlement = retried(job, 'the refund does not fit what is captured and reserved yet')
    return fencedUnless(await context.settle.job(settlement), settlement)
  }
  const ids = { tenant_id: of.tenant_id, payment_id: of.payment_id, refund_id: of.id }
  about(ids)
  const news = toldOfRefund(ids, looked.value)
  const settlement = await settleNews(job, (settled) =>
    context.settle.refund({ ...settled, told: news, notification_id: job.payload.notification_id }),
  )
  if (is_look || (ours?.status === 'failed' && news.status !== 'failed'))
    await compare(context, ids, sideOfRefund(looked.value))
  return settlement
}

async function settleNews(
  job: NotificationJob,
  settle: (settlement: Settlement) => Promise<boolean>,
): Promise<Settlement> {
  const settlement = succeeded(job)
  return fencedUnless(await settle(settlement), settlement)
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

// A refund made in the processor's own dashboard: it is in the books there, so it must be in ours.
async function takeIn(context: WorkerContext, refund: ProcessorRefund) {
  if (refund.payment_reference === null) return 'unknown payment'
  const payment = await findPaymentByReference(context.sql, context.processor.name, refund.payment_reference)
  if (payment === undefined) return 'unknown payment'
  const imported = await importRefund(context.sql, {
    tenant_id: payment.tenant_id,
    payment_id: payment.id,
    processor: context.processor.name,
    processor_reference: refund.reference,
    amount_minor: refund.amount_minor,
    failure: failureOf(refund),
  })
  return imported === undefined
    ? 'not yet'
    : { tenant_id: payment.tenant_id, payment_id: payment.id, id: imported.id }
}

async function settleLookFailed(
  context: WorkerContext,
  job: NotificationJob,
  looked: Parameters<typeof lookFailed>[1],
): Promise<Settlement> {
  const settlement = lookFailed(job, looked)
  return fencedUnless(await context.settle.job(settlement), settlement)
}

async function note(
  context: WorkerContext,
  job: NotificationJob,
  becomes: 'applied' | 'ignored' | 'parked',
  code = 'not_known_here',
): Promise<Settlement> {
  // A parked job stays open: it comes back when its object appears, and every hour in any case.
  const reason = 'names nothing that is known'
  const settlement: Settlement =
    becomes === 'parked'
      ? { ...returned(job, reason, PARKED_MS), outcome: 'parked', error: { code, message: reason } }
      : succeeded(job)
  const ours = await context.settle.notification({
    ...settlement,
    notification_id: job.payload.notification_id,
    becomes,
  })
  return fencedUnless(ours, settlement)
}
