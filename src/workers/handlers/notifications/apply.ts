// What applying news of a payment and of a refund have in common.
import type { Outcome } from '#core/outcome.ts'
import type { StoredNotification } from '#domain/notifications.ts'
import { WAITS_MS } from '#domain/reconciliation/drift.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import { done, goOn, type Decision } from '../../decision.ts'
import type { Tells } from '../../settle.ts'
import { askAgain, filedUnder, over } from './parked.ts'

/** We wrote it ourselves, to have the object looked at. */
export function isLook({ kind }: StoredNotification): boolean {
  return kind === LOOK_KIND
}

/** That it was parked may have been shown as a drift of its payment. */
export function wasDrift({ parked_ms }: StoredNotification): boolean {
  return (parked_ms ?? 0) >= WAITS_MS
}

/**
 * Applies news and ends its job. Where it is compared after that, the job ends when that is done: it comes again when the
 * processor gives no answer, or when its worker is killed.
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
