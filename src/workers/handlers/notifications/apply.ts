// What applying notifications of different nouns has in common.
import type { Outcome } from '#core/outcome.ts'
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import type { News } from '#providers/news.ts'
import type { WorkerContext } from '../../context.ts'
import { done, goOn, type Decision } from '../../decision.ts'
import type { Tells } from '../../settle.ts'
import { compare, type ComparedNoun } from './drifts.ts'
import { askAgain, over, parkFor, wasParkedFor } from './parked.ts'

/** Whether we wrote the notification ourselves, to have an object looked at. */
export function isLook({ kind }: StoredNotification): boolean {
  return kind === LOOK_KIND
}

/**
 * The provider's record of what news are about, and our row of it; the decision when one of them is missing. For nouns
 * that are part of no other: `find` reads our row by the reference, `ownerOf` also by our ids in the record.
 */
export async function findBoth<Row extends { tenant_id: string; id: string }, Found>(
  context: WorkerContext,
  notification: StoredNotification,
  { reference, marked }: News,
  {
    compared: noun,
    find,
    ask,
    ownerOf,
  }: {
    compared: ComparedNoun
    find: () => Promise<Row | undefined>
    ask: () => Promise<Outcome<Found | null>>
    ownerOf: (record: Found) => Promise<Row | undefined>
  },
): Promise<{ row: Row; record: Found } | { decision: Decision }> {
  const is_look = isLook(notification)
  // Without our mark and unknown here it belongs to another application: no need to fetch it.
  if (!is_look && !marked && (await find()) === undefined)
    return { decision: parkFor(context, notification, 'not_ours', { waits_for: reference }) }
  const looked = await ask()
  if (looked.kind !== 'done') return { decision: askAgain(notification, looked) }
  const record = looked.value
  const row = record === null ? await find() : await ownerOf(record)
  if (row !== undefined && record !== null) return { row, record }
  if (row !== undefined && (is_look || wasParkedFor(notification, 'not_at_processor'))) {
    const compared = await compare(context, noun, row, null)
    if (compared.kind !== 'done') return { decision: askAgain(notification, compared) }
  }
  if (is_look) return { decision: over(notification, 'ignored') }
  const reason = record === null ? 'not_at_processor' : 'not_known_here'
  return { decision: parkFor(context, notification, reason, { waits_for: reference }) }
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
