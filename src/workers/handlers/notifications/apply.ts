// What applying notifications of different nouns has in common.
import type { Outcome } from '#core/outcome.ts'
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import { done, goOn, type Decision } from '../../decision.ts'
import type { Tells } from '../../settle.ts'
import { askAgain, over } from './parked.ts'

/** Whether we wrote the notification ourselves, to have an object looked at. */
export function isLook({ kind }: StoredNotification): boolean {
  return kind === LOOK_KIND
}

/**
 * Applies a notification, filed under the row `of`, and ends its job. With `compareAfter`, the job ends only after
 * that comparison: it is tried again when the provider gives no answer, and claimed again when its worker is killed.
 */
export async function applied(
  notification: StoredNotification,
  of: SubjectKey,
  { tells, compareAfter }: { tells?: Tells; compareAfter?: () => Promise<Outcome<unknown>> },
): Promise<Decision> {
  if (compareAfter === undefined)
    return tells === undefined ? over(notification, 'applied', { of }) : done({ tells })
  const end = async () => {
    const compared = await compareAfter()
    return compared.kind === 'done' ? over(notification, 'applied', { of }) : askAgain(notification, compared)
  }
  return tells === undefined ? await end() : goOn(tells, end)
}
