// Parked notifications: their jobs stay open until what they need is here; when they look again, and what is given up when.
import { metrics } from '#core/metrics.ts'
import type { Undone } from '#core/outcome.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import {
  findNotification,
  settleNotifications,
  type NotificationSettlement,
  type ParkedReason,
  type StoredNotification,
} from '#domain/notifications.ts'
import { findPaymentByReference } from '#domain/payments/find.ts'
import { WAITS_MS } from '#domain/reconciliation/drift.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import type { WorkerContext } from '../../context.ts'
import { discard, done, goOn, park, unanswered, type Decision } from '../../decision.ts'
import { settling, type Tells, type Told } from '../../settle.ts'
import { compare } from './drifts.ts'
import { newsOf } from './news.ts'

/** Where the processor has given no answer, `askAgain` says when it is asked again; what is poison looks no more. */
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

/** News of a payment and of its refunds are filed under the payment. */
export function filedUnder({ tenant_id, payment_id }: { tenant_id: string; payment_id: string }): SubjectKey {
  return { tenant_id, subject: 'payment', subject_id: payment_id }
}

const settlingNotification = settling<Told<NotificationSettlement>>(
  'settle_notification',
  settleNotifications,
  ({ job_id }) => job_id,
)

type About = Partial<Pick<NotificationSettlement, 'waits_for' | 'of'>>

/** What a decision tells of a notification that moves nothing now. */
function becoming(
  { id: notification_id }: StoredNotification,
  becomes: NotificationSettlement['becomes'],
  { reason = null, waits_for = null, of = null }: About & { reason?: ParkedReason | null } = {},
): Tells {
  return settlingNotification({ notification_id, becomes, reason, waits_for, of })
}

/** It needs nothing more, or concerns nobody here. */
export function over(
  notification: StoredNotification,
  becomes: 'applied' | 'ignored',
  about: About = {},
): Decision {
  return done({ tells: becoming(notification, becomes, about) })
}

/** Whether it has been parked for this reason for so long that news on their way would have arrived. */
export function hasWaited(notification: StoredNotification, reason: ParkedReason): boolean {
  return notification.reason === reason && (notification.parked_ms ?? 0) >= WAITS_MS
}

/** Parks a notification until what it waits for wakes it or its time comes; ignores it when it has waited in vain. */
export function parkFor(
  { log }: WorkerContext,
  notification: StoredNotification,
  reason: Waiting,
  about: About = {},
): Decision {
  const parked_ms = notification.reason === reason ? (notification.parked_ms ?? 0) : 0
  const delay_ms = delayOf(reason, parked_ms)
  if (delay_ms !== undefined) {
    const tells = becoming(notification, 'parked', { reason, ...about })
    return park(REASONS[reason], { code: reason, delay_ms, tells })
  }
  metrics.parkedGone.inc({ reason })
  if (reason !== 'not_ours') {
    const { id, kind, object_id } = notification
    log.warn({ notification_id: id, kind, object_id, reason }, 'a notification waited in vain')
  }
  return done({ tells: becoming(notification, 'ignored', { reason, ...about }) })
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
export async function parkPoison(context: WorkerContext, job: ClaimedJob, reason: string): Promise<Decision> {
  const { sql, log, processor } = context
  // A notification and its job have one id.
  const notification = await findNotification(sql, job.id)
  if (notification === undefined) return discard(reason)
  const reference = newsOf(processor, notification)?.payment_reference
  const payment = reference && (await findPaymentByReference(sql, processor.name, reference))
  const of = payment ? { tenant_id: payment.tenant_id, payment_id: payment.id } : null
  const { kind, object_id } = notification
  log.error(
    { notification_id: job.id, kind, object_id, ...of, reason },
    'a notification is given up until it is retried',
  )
  const tells = becoming(notification, 'parked', { reason: 'poison', of: of && filedUnder(of) })
  const parked = park(reason, { code: 'poison', tells })
  if (of === null) return parked
  return goOn(tells, async () => {
    const compared = await compare(context, of, null)
    // Its attempts stay used up: it comes again to be compared, not to be tried.
    return compared.kind === 'done' ? parked : unanswered(compared, { tells, counts: true })
  })
}

/** The processor could not be asked: it is asked again until it can be, which uses up no attempt. */
export function askAgain(notification: StoredNotification, looked: Undone): Decision {
  // One that is parked goes on waiting for what it waits for; one that a person retried is given up no more.
  const waits = notification.state === 'parked' && notification.reason !== 'poison'
  return unanswered(looked, waits ? {} : { tells: becoming(notification, 'parked', { reason: 'no_answer' }) })
}
