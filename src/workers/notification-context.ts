// The context for a notification: that of its mode, or of the sandbox from which it comes.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { lookupOf } from '#domain/reconciliation/lookups.ts'
import { tenantOfSandboxAccount } from '#domain/sandboxes/account.ts'
import type { WorkerContext } from './context.ts'
import { markAsTest } from './job-log.ts'

/**
 * The context for a notification, whose job may belong to the system. A notification from a sandbox has the account of
 * its tenant, and a lookup names the tenant of its row.
 */
export async function contextOfNotification(
  { modes }: WorkerContext,
  notification: StoredNotification,
): Promise<WorkerContext> {
  const { livemode, account } = notification
  if (livemode) return modes.contextOf(true)
  markAsTest()
  const tenant_id = tenantOfSandboxAccount(account) ?? lookupOf(notification)?.tenant_id ?? null
  return tenant_id === null ? modes.contextOf(false) : await modes.testContextOf(tenant_id)
}
