// Applies notifications: whatever they claim, the processor is asked how the object stands now, and that is applied.
import { z } from 'zod'
import type { ClaimedJob, Settlement } from '#domain/jobs.ts'
import { findNotification, NOT_AT_PROCESSOR } from '#domain/notifications.ts'
import { findPaymentByReference } from '#domain/payments/payment.ts'
import { findRefundByReference, importRefund } from '#domain/refunds.ts'
import type { PayloadOf } from '#jobs/index.ts'
import type { ProcessorPayment, ProcessorRefund } from '#providers/processor.ts'
import type { WorkerContext } from './context.ts'
import { fencedUnless, lookFailed, toldOf } from './payments.ts'
import { failureOf, toldOfRefund } from './refunds.ts'
import { retried, returned, succeeded } from './settlement.ts'

type NotificationJob = ClaimedJob & { payload: PayloadOf<'notification.apply'> }
type Found = { tenant_id: string; id: string }

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
  if (object === 'payment_intent') return await applyPayment(context, job, id)
  if (object === 'refund') return await applyRefund(context, job, id)
  // A charge changes with its payment. Its refunds come as events of their own: `charge.refunded` also fires when an
  // uncaptured hold is released.
  if (object === 'charge' && payment_intent != null) return await applyPayment(context, job, payment_intent)
  return await note(context, job, 'ignored')
}

async function applyPayment(
  context: WorkerContext,
  job: NotificationJob,
  reference: string,
): Promise<Settlement> {
  const looked = await context.processor.findPayment(reference)
  if (looked.kind !== 'done') return await settleLookFailed(context, job, looked)
  if (looked.value === null) return await note(context, job, 'parked', NOT_AT_PROCESSOR)
  const payment = await ownerOf(context, looked.value)
  if (payment === undefined) return await note(context, job, 'parked')
  const news = toldOf(context, { tenant_id: payment.tenant_id, payment_id: payment.id }, looked.value)
  if (news === undefined) return await note(context, job, 'applied')
  const settlement = succeeded(job)
  const ours = await context.settle.payment({
    ...settlement,
    told: news,
    notification_id: job.payload.notification_id,
  })
  return fencedUnless(ours, settlement)
}

async function applyRefund(
  context: WorkerContext,
  job: NotificationJob,
  reference: string,
): Promise<Settlement> {
  const looked = await context.processor.findRefund(reference)
  if (looked.kind !== 'done') return await settleLookFailed(context, job, looked)
  if (looked.value === null) return await note(context, job, 'parked', NOT_AT_PROCESSOR)
  if (looked.value.released_hold) return await note(context, job, 'ignored')
  const of = (await ourRefund(context, looked.value)) ?? (await takeIn(context, looked.value))
  if (of === 'unknown payment') return await note(context, job, 'parked')
  if (of === 'not yet') {
    const settlement = retried(job, 'the refund does not fit what is captured and reserved yet')
    return fencedUnless(await context.settle.job(settlement), settlement)
  }
  const settlement = succeeded(job)
  const news = toldOfRefund(of, looked.value)
  const ours = await context.settle.refund({
    ...settlement,
    told: news,
    notification_id: job.payload.notification_id,
  })
  return fencedUnless(ours, settlement)
}

// By our own ids where the processor kept them: the news may be faster than the answer that names its reference. A copy
// of them on something else makes that not ours.
async function ownerOf(context: WorkerContext, payment: ProcessorPayment): Promise<Found | undefined> {
  const { sluice_tenant_id, sluice_payment_id } = payment.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, id: sluice_payment_id })
  if (ids.success) {
    const [row] = await context.sql<Found[]>`
      select tenant_id, id from payments where tenant_id = ${ids.data.tenant_id} and id = ${ids.data.id}
        and coalesce(processor_reference, ${payment.reference}) = ${payment.reference}`
    if (row !== undefined) return row
  }
  return await findPaymentByReference(context.sql, context.processor.name, payment.reference)
}

async function ourRefund(context: WorkerContext, refund: ProcessorRefund) {
  const known = await findRefundByReference(context.sql, context.processor.name, refund.reference)
  if (known !== undefined)
    return { tenant_id: known.tenant_id, payment_id: known.payment_id, refund_id: known.id }
  const { sluice_tenant_id, sluice_payment_id, sluice_refund_id } = refund.metadata
  const ids = z
    .object({ tenant_id: z.uuid(), payment_id: z.uuid(), refund_id: z.uuid() })
    .safeParse({ tenant_id: sluice_tenant_id, payment_id: sluice_payment_id, refund_id: sluice_refund_id })
  if (!ids.success) return undefined
  const [row] = await context.sql`
    select from refunds where tenant_id = ${ids.data.tenant_id} and id = ${ids.data.refund_id} and payment_id = ${ids.data.payment_id}
      and coalesce(processor_reference, ${refund.reference}) = ${refund.reference}`
  return row === undefined ? undefined : ids.data
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
    : { tenant_id: payment.tenant_id, payment_id: payment.id, refund_id: imported.id }
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
