// Applies notifications. The content of a notification that may move money is not trusted: the provider is queried for
// the present state of the object.
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { findNotification, type StoredNotification } from '#domain/notifications/notification.ts'
import { closingOrphan } from '#domain/reconciliation/orphans.ts'
import type { ProviderResourceName } from '#domain/resources.ts'
import { applyNotification, applyTestNotification } from '#jobs/notifications.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { WorkerContext } from '../../context.ts'
import { discard, done, park, retry, type Decision } from '../../decision.ts'
import { factsOf } from '../../job-log.ts'
import { contextOfNotification } from '../../notification-context.ts'
import { disputeEvent } from '../disputes/events.ts'
import { handling, NEWER_VERSION_DELAY_MS, type JobOf } from '../handler.ts'
import { applyMessageEvent, isFromMessageProvider } from '../messages/events.ts'
import { paymentEvent } from '../payments/events.ts'
import { payoutEvent } from '../payouts/events.ts'
import { refundEvent } from '../refunds/events.ts'
import { topUpEvent } from '../top-ups/events.ts'
import { verificationEvent } from '../verifications/events.ts'
import { parkAsDrift } from './apply.ts'
import type { ComparedResource } from './drifts.ts'
import { readProviderEvent } from './events.ts'
import { notificationEffects, finish, retryQuery } from './parked.ts'

export const notificationHandlers = {
  [applyNotification.name]: handling(applyNotification, apply, parkPoison),
  [applyTestNotification.name]: handling(applyTestNotification, apply, parkPoison),
}

type FollowedResource = {
  apply(
    context: WorkerContext,
    notification: StoredNotification,
    target: ProviderEventTarget,
  ): Promise<Decision>
  /** Finds the row to which events are assigned, and how to compare it; undefined if there is no such row. */
  findRow(context: WorkerContext, target: ProviderEventTarget): Promise<AssignedRow | undefined>
}
type AssignedRow = { tenant_id: string; id: string; compared: ComparedResource }

/**
 * The handlers of provider events by resource. A resource with records at a provider and without a handler here is a
 * compile error.
 */
const FOLLOWED: Record<ProviderResourceName, FollowedResource> = {
  kyc: verificationEvent,
  dispute: disputeEvent,
  payment: paymentEvent,
  payout: payoutEvent,
  refund: refundEvent,
  top_up: topUpEvent,
}
const byResource = new Map<string, FollowedResource>(Object.entries(FOLLOWED))

/**
 * Applies one notification. The result does not depend on the order of the notifications, nor on repeated
 * notifications.
 */
async function apply(live: WorkerContext, job: JobOf<typeof applyNotification>): Promise<Decision> {
  const notification = await findNotification(live.sql, job.payload.notification_id)
  if (notification === undefined || notification.state === 'applied') return done()
  const context = await contextOfNotification(live, notification)
  if (!canQuery(context, notification)) {
    const reason = `this worker has no provider "${notification.provider}" for test mode`
    return retryQuery(notification, { kind: 'misconfigured', reason })
  }
  if (isFromMessageProvider(notification)) return await applyMessageEvent(context, notification)
  const target = readProviderEvent(notification)
  if (target === undefined)
    return leaveToNewerVersion(`this version reads no events of ${notification.provider}`)
  if (target === null) return finish(notification, 'ignored')
  const resource = byResource.get(target.resource)
  if (resource === undefined)
    return leaveToNewerVersion(`this version applies no events of a ${target.resource}`)
  const decision = await resource.apply(context, notification, target)
  const { provider, livemode, reason, object_id: reference } = notification
  if (reason === 'orphan' && reference !== null && (decision.kind === 'done' || decision.kind === 'continue'))
    await closingOrphan(context.sql, { provider, livemode, reference })
  return decision
}

/** False for a notification of test mode whose provider test mode lacks. */
function canQuery({ livemode, configured }: WorkerContext, { provider }: StoredNotification): boolean {
  return livemode || configured.has(provider)
}

// Only a newer version can apply the notification.
function leaveToNewerVersion(reason: string): Decision {
  return retry(reason, { delay_ms: NEWER_VERSION_DELAY_MS })
}

/**
 * Gives up a notification whose worker was killed, or whose handler threw, each time: it is parked until an operator
 * retries it.
 */
async function parkPoison(live: WorkerContext, job: ClaimedJob, reason: string): Promise<Decision> {
  const { sql, log } = live
  // A notification and its job have the same id.
  const notification = await findNotification(sql, job.id)
  if (notification === undefined) return discard(reason)
  const context = await contextOfNotification(live, notification)
  const target = canQuery(context, notification) ? readProviderEvent(notification) : undefined
  const row = target && (await byResource.get(target.resource)?.findRow(context, target))
  const { kind, object_id } = notification
  log.error(
    {
      ...factsOf(job),
      kind,
      object_id,
      ...(row && { tenant_id: row.tenant_id, [`${row.compared.resource}_id`]: row.id }),
      reason,
    },
    'a notification is parked until an operator retries it',
  )
  if (!row)
    return park(reason, {
      code: 'poison',
      effects: notificationEffects(notification, 'parked', { reason: 'poison' }),
    })
  const cause = { code: 'poison', reason } as const
  return parkAsDrift(context, notification, { compared: row.compared, row, cause, counts_attempt: true })
}
