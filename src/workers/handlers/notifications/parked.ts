// Parked notifications: their reasons, their lookup schedule, and when they are ignored or given up.
import { metrics } from '#core/metrics.ts'
import type { UnsuccessfulOutcome } from '#core/outcome.ts'
import type { ParkedReason, StoredNotification } from '#domain/notifications/notification.ts'
import { settleNotifications, type NotificationSettlement } from '#domain/notifications/settle.ts'
import { PROVIDER_LEAD_MS } from '#domain/reconciliation/drift.ts'
import type { WorkerContext } from '../../context.ts'
import { done, park, unanswered, type Decision } from '../../decision.ts'
import { isTestAttempt } from '../../job-log.ts'
import { onceWritten, createSettlingStep, type Effects, type SettlementDetails } from '../../settle.ts'

/**
 * The reasons with a lookup schedule. `retryQuery` retries `no_answer`; `poison`, `duplicate` and `orphan` wait for an
 * operator.
 */
type ScheduledReason = Exclude<ParkedReason, 'no_answer' | 'poison' | 'duplicate' | 'orphan'>

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/**
 * When a parked notification is looked up again, in milliseconds after it was parked. After the last lookup it is
 * ignored. If its object appears earlier, the step that creates the object resumes the notification. The first lookup
 * is soon, because the object may have appeared while the notification was being parked.
 */
const LOOKUP_DELAYS_BY_REASON_MS: { [Reason in ScheduledReason]?: number[] } = {
  not_known_here: [PROVIDER_LEAD_MS, HOUR_MS, DAY_MS],
  not_at_processor: [PROVIDER_LEAD_MS, HOUR_MS, DAY_MS],
  not_ours: [5 * 60_000],
}
const REASONS: Record<ScheduledReason, string> = {
  not_known_here: 'the object of the notification is not known here',
  not_ours: 'the object of the notification has no Sluice metadata and is not known here',
  not_at_processor: 'the processor does not know the object of the notification',
  does_not_fit: 'the reported amount does not fit the captured and reserved amounts yet',
  refunds_differ: 'the refunded amount at the processor differs from ours',
}

const settlingNotification = createSettlingStep<SettlementDetails<NotificationSettlement>>(
  'settle_notification',
  settleNotifications,
  ({ job_id }) => job_id,
)

type About = Partial<Pick<NotificationSettlement, 'waits_for' | 'of'>>

/** The effects of a decision that changes only the notification. */
export function notificationEffects(
  { id: notification_id }: StoredNotification,
  becomes: NotificationSettlement['becomes'],
  { reason = null, waits_for = null, of = null }: About & { reason?: ParkedReason | null } = {},
): Effects {
  return settlingNotification({ notification_id, becomes, reason, waits_for, of })
}

/** Ends the notification and its job. */
export function finish(
  notification: StoredNotification,
  becomes: 'applied' | 'ignored',
  about: About = {},
): Decision {
  return done({ effects: notificationEffects(notification, becomes, about) })
}

/** Whether the notification has been parked for so long that a comparison may have opened a drift. */
export function wasDrift({ parked_ms }: StoredNotification): boolean {
  return (parked_ms ?? 0) >= PROVIDER_LEAD_MS
}

/**
 * Whether the notification has been parked for this reason for so long that other notifications in transit would have
 * arrived by now.
 */
export function wasParkedFor(notification: StoredNotification, reason: ParkedReason): boolean {
  return notification.reason === reason && wasDrift(notification)
}

/**
 * Parks a notification until its object appears or its next lookup is due. Ignores the notification after the last
 * lookup, but not while jobs wait since a switch of the database, because its object may still be recovered.
 */
export function parkFor(
  { database, log }: WorkerContext,
  notification: StoredNotification,
  reason: ScheduledReason,
  about: About = {},
): Decision {
  const parked_ms = notification.reason === reason ? (notification.parked_ms ?? 0) : 0
  const delay_ms = delayOf(reason, parked_ms) ?? (database.isHeld() ? PROVIDER_LEAD_MS : undefined)
  if (delay_ms !== undefined) {
    const effects = notificationEffects(notification, 'parked', { reason, ...about })
    return park(REASONS[reason], { code: reason, delay_ms, effects })
  }
  const effects = onceWritten(notificationEffects(notification, 'ignored', { reason, ...about }), () => {
    if (!isTestAttempt()) metrics.notificationsIgnored.inc({ reason })
    const { id, kind, object_id } = notification
    if (reason !== 'not_ours')
      log.warn(
        { notification_id: id, kind, object_id, reason },
        'a parked notification is ignored: its last lookup did not resolve it',
      )
  })
  return done({ effects })
}

// The delay until the next lookup; undefined after the last one.
function delayOf(reason: ScheduledReason, parked_ms: number): number | undefined {
  const lookup_delays_ms = LOOKUP_DELAYS_BY_REASON_MS[reason]
  if (lookup_delays_ms !== undefined) return lookup_delays_ms.find((delay_ms) => delay_ms > parked_ms)
  if (reason === 'refunds_differ') return PROVIDER_LEAD_MS
  // `does_not_fit`: about as long as the notification has been parked, so lookups become rarer.
  return Math.min(HOUR_MS, Math.max(1000, parked_ms)) * (0.5 + Math.random() / 2)
}

/** Retries until the processor answers a query, without using up attempts. */
export function retryQuery(notification: StoredNotification, lookup: UnsuccessfulOutcome): Decision {
  // A parked notification keeps its reason. The reason `poison` is replaced, because an operator has retried the job.
  const waits = notification.state === 'parked' && notification.reason !== 'poison'
  return unanswered(
    lookup,
    waits ? {} : { effects: notificationEffects(notification, 'parked', { reason: 'no_answer' }) },
  )
}
