// Parks notifications of orphans: records that this installation has created, and from which no row can be made.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { isParkedAsOrphan, openOrphan } from '#domain/reconciliation/orphans.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProviderResourceName } from '#domain/resources.ts'
import type { WorkerContext } from '../../context.ts'
import { park, type Decision } from '../../decision.ts'
import { finish, notificationEffects, parkFor } from './parked.ts'

/**
 * Opens the drift of an orphan, and parks its notification until the row exists, or an operator retries or discards the
 * job. A new notification is ignored if another one reports the orphan; all are if an operator has dismissed it. An
 * object of test mode without a tenant is no orphan.
 */
export async function parkOrphan(
  context: WorkerContext,
  notification: StoredNotification,
  {
    resource,
    reference,
    tenant_id,
    problem,
    theirs,
    waits_for = reference,
  }: {
    resource: ProviderResourceName
    reference: string
    tenant_id: string | null
    problem: string
    theirs: Side
    /** The provider's id of the object whose row must be made first. */
    waits_for?: string
  },
): Promise<Decision> {
  const { sql, log } = context
  const { provider, livemode } = notification
  // Its drift would belong to the system, and concern operators.
  if (!livemode && tenant_id === null) return parkFor(context, notification, 'not_ours')
  const object = { provider, livemode, reference }
  const detail = `${reference} was created here and has no row: ${problem}`
  if (!(await openOrphan(sql, object, { tenant_id, resource, theirs, detail })))
    return finish(notification, 'ignored')
  // One that is parked already stays parked: two that arrived at once do not end each other.
  if (notification.reason !== 'orphan' && (await isParkedAsOrphan(sql, object, notification.id)))
    return finish(notification, 'ignored')
  log[livemode ? 'error' : 'warn'](
    { resource, reference, tenant_id, problem },
    'an orphan: an object of ours from which no row can be made',
  )
  const effects = notificationEffects(notification, 'parked', { reason: 'orphan', waits_for })
  return park(detail, { code: 'orphan', effects })
}
