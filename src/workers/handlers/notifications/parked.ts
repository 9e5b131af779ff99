// Parked notifications: why and for how long they wait, when they look again, and when they are ignored or given up.
import { metrics } from '#core/metrics.ts'
import type { UnsuccessfulOutcome } from '#core/outcome.ts'
import type { ParkedReason, StoredNotification } from '#domain/notifications/notification.ts'
import { settleNotifications, type NotificationSettlement } from '#domain/notifications/settle.ts'
import { PROVIDER_LEAD_MS } from '#domain/reconciliation/drift.ts'
import type { WorkerContext } from '../../context.ts'
import { done, park, unanswered, type Decision } from '../../decision.ts'
import { onceWritten, createSettlingStep, type Effects, type SettlementDetails } from '../../settle.ts'

/** The reasons with a schedule here. After `no_answer` see `askAgain`; the others wait for an operator. */
type ScheduledReason = Exclude<ParkedReason, 'no_answer' | 'poison' | 'second'>

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/**
 * How long after it was parked a notification looks again; after the last of these it is ignored. If what it waits
 * for appears earlier, that wakes it. The first look comes soon, because that may have appeared at the moment of
 * parking.
 */
const LOOKUP_DELAYS_BY_REASON_MS: { [Reason in ScheduledReason]?: number[] } = {
  not_known_here: [PROVIDER_LEAD_MS, HOUR_MS, DAY_MS],
  not_at_processor: [PROVIDER_LEAD_MS, HOUR_MS, DAY_MS],
  not_ours: [5 * 60_000],
}
const REASONS: Record<ScheduledReason, string> = {
  not_known_here: 'what it names is not known here',
  not_ours: 'what it names carries no mark of ours and is not known here',
  not_at_processor: 'the processor does not know what it names',
  does_not_fit: 'what it tells does not fit what is captured and reserved yet',
  refunds_differ: 'the processor has refunded another amount than we know of',
}

const settlingNotification = createSettlingStep<SettlementDetails<NotificationSettlement>>(
  'settle_notification',
  settleNotifications,
  ({ job_id }) => job_id,
)

type About = Partial<Pick<NotificationSettlement, 'waits_for' | 'of'>>

/** What a decision tells of a notification that changes no row of a noun now. */
export function notificationEffects(
  { id: notification_id }: StoredNotification,
  becomes: NotificationSettlement['becomes'],
  { reason = null, waits_for = null, of = null }: About & { reason?: ParkedReason | null } = {},
): Effects {
  return settlingNotification({ notification_id, becomes, reason, waits_for, of })
}

/** The notification is finished: nothing more is to be done for it. */
export function finish(
  notification: StoredNotification,
  becomes: 'applied' | 'ignored',
  about: About = {},
): Decision {
  return done({ effects: notificationEffects(notification, becomes, about) })
}

/** Whether it was parked for so long that it may have been shown as a drift. */
export function wasDrift({ parked_ms }: StoredNotification): boolean {
  return (parked_ms ?? 0) >= PROVIDER_LEAD_MS
}

/** Whether it has been parked for this reason so long that other notifications on their way would have arrived. */
export function wasParkedFor(notification: StoredNotification, reason: ParkedReason): boolean {
  return notification.reason === reason && wasDrift(notification)
}

/** Parks a notification until what it waits for wakes it or its next look is due; ignores it after the last look. */
export function parkFor(
  { log }: WorkerContext,
  notification: StoredNotification,
  reason: ScheduledReason,
  about: About = {},
): Decision {
  const parked_ms = notification.reason === reason ? (notification.parked_ms ?? 0) : 0
  const delay_ms = delayOf(reason, parked_ms)
  if (delay_ms !== undefined) {
    const effects = notificationEffects(notification, 'parked', { reason, ...about })
    return park(REASONS[reason], { code: reason, delay_ms, effects })
  }
  const effects = onceWritten(notificationEffects(notification, 'ignored', { reason, ...about }), () => {
    metrics.notificationsIgnored.inc({ reason })
    const { id, kind, object_id } = notification
    if (reason !== 'not_ours')
      log.warn({ notification_id: id, kind, object_id, reason }, 'a parked notification was given up')
  })
  return done({ effects })
}

// Until the next look; undefined when the last one is over.
function delayOf(reason: ScheduledReason, parked_ms: number): number | undefined {
  const lookup_delays_ms = LOOKUP_DELAYS_BY_REASON_MS[reason]
  if (lookup_delays_ms !== undefined) return lookup_delays_ms.find((look_ms) => look_ms > parked_ms)
  if (reason === 'refunds_differ') return PROVIDER_LEAD_MS
  // `does_not_fit`: as long again as it has waited, so looks become rarer.
  return Math.min(HOUR_MS, Math.max(1000, parked_ms)) * (0.5 + Math.random() / 2)
}

/** The processor could not be asked: tries again until it answers, without using up attempts. */
export function retryQuery(notification: StoredNotification, lookup: UnsuccessfulOutcome): Decision {
  // A parked notification keeps its reason. One that was given up and retried by an operator loses its reason `poison`.
  const waits = notification.state === 'parked' && notification.reason !== 'poison'
  return unanswered(
    lookup,
    waits ? {} : { effects: notificationEffects(notification, 'parked', { reason: 'no_answer' }) },
  )
}
