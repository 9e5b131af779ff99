// What applying notifications of payments and of refunds have in common.
import type { Outcome } from '#core/outcome.ts'
import type { StoredNotification } from '#domain/notifications.ts'
import { WAITS_MS } from '#domain/reconciliation/drift.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import { done, goOn, type Decision } from '../../decision.ts'
import type { Tells } from '../../settle.ts'
import { askAgain, filedUnder, over } from './parked.ts'

/** Whether we wrote the notification ourselves, to have an object looked at. */
export function isLook({ kind }: StoredNotification): boolean {
  return kind === LOOK_KIND
}

/** Whether it was parked for so long that it may have been shown as a drift of its payment. */
export function wasDrift({ parked_ms }: StoredNotification): boolean {
  return (parked_ms ?? 0) >= WAITS_MS
}

/**
 * Applies a notification and ends its job. With `compareAfter`, the job ends only after that comparison: it is tried
 * again when the processor gives no answer, and claimed again when its worker is killed.
 */
export async function applied(
  notification: StoredNotification,
  of: { tenant_id: string; payment_id: string },
  { tells, compareAfter }: { tells?: Tells; compareAfter?: () => Promise<Outcome<unknown>> },
): Promise<Decision> {
  if (compareAfter === undefined)
    return tells === undefined ? over(notification, 'applied', { of: filedUnder(of) }) : done({ tells })
  const end = async () => {
    const compared = await compareAfter()
    return compared.kind === 'done'
      ? over(notification, 'applied', { of: filedUnder(of) })
      : askAgain(notification, compared)
  }
  return tells === undefined ? await end() : goOn(tells, end)
}
