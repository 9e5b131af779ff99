// Parked notifications: their jobs stay open until what they need is here; when they look again, and what is given up when.
import { metrics } from '#core/metrics.ts'
import type { Undone } from '#core/outcome.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import {
  findNotification,
  type NotificationSettlement,
  type ParkedReason,
  type StoredNotification,
} from '#domain/notifications.ts'
import { findPaymentByReference } from '#domain/payments/find.ts'
import { WAITS_MS } from '#domain/reconciliation/drift.ts'
import type { WorkerContext } from '../context.ts'
import { compare } from './drifts.ts'
import { newsOf } from '../news.ts'
import { fencedUnless } from '../handlers/payments.ts'
import { discarded, goesOn, returned, succeeded, unanswered } from '../settlement.ts'

/** Where the processor has given no answer, `lookAgain` says when it is asked again; what is poison looks no more. */
type Waiting = Exclude<ParkedReason, 'no_answer' | 'poison'>

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/**
 * So long after it was parked a notification looks again, and after the last time it is ignored. What it waits for wakes it
 * before; the first look is soon, because that and parking may have crossed.
 */
const LOOKS_MS: { [Reason in Waiting]?: number[] } = {
  not_known_here: [WAITS_MS, HOUR_MS, DAY_MS],
  not_at_processor: [WAITS_MS, HOUR_MS, DAY_MS],
  not_ours: [5 * 60_000],
}
const REASONS: Record<Waiting, string> = {
  not_known_here: 'what it names is not known here',
  not_ours: 'what it names carries no mark of ours and is not known here',
  not_at_processor: 'the processor does not know what it names',
  does_not_fit: 'the refund does not fit what is captured and reserved yet',
  refunds_differ: 'the processor has refunded another amount than we know of',
}

/** A notification while its job is performed. */
export type News = { job: ClaimedJob; notification: StoredNotification }
type About = Partial<Pick<NotificationSettlement, 'waits_for' | 'of'>>

/** Whether it has been parked for this reason for so long that news on their way would have arrived. */
export function hasWaited({ notification }: News, reason: ParkedReason): boolean {
  return notification.reason === reason && (notification.parked_ms ?? 0) >= WAITS_MS
}

/** Parks a notification until what it waits for wakes it or its time comes; ignores it when it has waited in vain. */
export async function park(
  context: WorkerContext,
  { job, notification }: News,
  reason: Waiting,
  about: About = {},
): Promise<Settlement> {
  const message = REASONS[reason]
  const parked_ms = notification.reason === reason ? (notification.parked_ms ?? 0) : 0
  const delay_ms = delayOf(reason, parked_ms)
  if (delay_ms !== undefined) {
    const parked = {
      ...returned(job, message, delay_ms),
      outcome: 'parked',
      error: { code: reason, message },
    }
    return await note(context, parked, 'parked', { reason, ...about })
  }
  const settlement = await note(context, succeeded(job), 'ignored', { reason, ...about })
  if (settlement.outcome === 'fenced') return settlement
  metrics.parkedGone.inc({ reason })
  if (reason !== 'not_ours') {
    const { id, kind, object_id } = notification
    context.log.warn({ notification_id: id, kind, object_id, reason }, 'a notification waited in vain')
  }
  return settlement
}

// Undefined when it has looked for the last time.
function delayOf(reason: Waiting, parked_ms: number): number | undefined {
  const looks_ms = LOOKS_MS[reason]
  if (looks_ms !== undefined) return looks_ms.find((look_ms) => look_ms > parked_ms)
  if (reason === 'refunds_differ') return WAITS_MS
  // As long again as it has waited.
  return Math.min(HOUR_MS, Math.max(1000, parked_ms)) * (0.5 + Math.random() / 2)
}

/** The end of a notification whose worker was killed, or whose handler threw, each time: parked until a person retries it. */
export async function parkPoison(
  context: WorkerContext,
  job: ClaimedJob,
  reason: string,
): Promise<Settlement> {
  const { sql, log, processor, settle } = context
  const notification = await findNotification(sql, job.id)
  if (notification === undefined) {
    const settlement = discarded(job, reason)
    return fencedUnless(await settle.job(settlement), settlement)
  }
  const reference = newsOf(processor, notification)?.payment_reference
  const payment = reference && (await findPaymentByReference(sql, processor.name, reference))
  const of = payment ? { tenant_id: payment.tenant_id, payment_id: payment.id } : null
  const filed = of && ({ tenant_id: of.tenant_id, subject: 'payment', subject_id: of.payment_id } as const)
  const poison = { reason: 'poison', of: filed } as const
  const { kind, object_id } = notification
  log.error(
    { notification_id: job.id, kind, object_id, ...of, reason },
    'a notification is given up until it is retried',
  )
  if (of !== null) {
    const noted = await note(context, goesOn(job), 'parked', poison)
    if (noted.outcome === 'fenced') return noted
    const compared = await compare(context, of, null)
    // Its attempts stay used up: it comes again to be compared, not to be tried.
    if (compared.kind !== 'done')
      return await note(context, { ...unanswered(job, compared), forgive: false }, 'parked', poison)
  }
  const parked = {
    ...returned(job, reason),
    outcome: 'parked',
    error: { code: 'poison', message: reason },
    delay_ms: null,
  }
  return await note(context, parked, 'parked', poison)
}

/** The processor could not be asked: it is asked again until it can be, which uses up no attempt. */
export async function lookAgain(
  context: WorkerContext,
  { job, notification }: News,
  looked: Undone,
): Promise<Settlement> {
  const settlement = unanswered(job, looked)
  // One that is parked goes on waiting for what it waits for; one that a person retried is given up no more.
  return notification.state === 'parked' && notification.reason !== 'poison'
    ? fencedUnless(await context.settle.job(settlement), settlement)
    : await note(context, settlement, 'parked', { reason: 'no_answer' })
}

/** Settles the job of a notification together with the state of it. */
export async function note(
  context: WorkerContext,
  settlement: Settlement,
  becomes: NotificationSettlement['becomes'],
  { reason = null, waits_for = null, of = null }: About & { reason?: ParkedReason | null } = {},
): Promise<Settlement> {
  // A notification and its job have one id.
  const notification_id = settlement.job_id
  const ours = await context.settle.notification({
    ...settlement,
    notification_id,
    becomes,
    reason,
    waits_for,
    of,
  })
  return fencedUnless(ours, settlement)
}
