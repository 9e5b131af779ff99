// What applying notifications of different nouns has in common.
import { z } from 'zod'
import type { Outcome } from '#core/outcome.ts'
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import { findOurs } from '#domain/reconciliation/drift.ts'
import type { ProviderNoun, SubjectKey } from '#domain/subjects.ts'
import type { News } from '#providers/news.ts'
import type { WorkerContext } from '../../context.ts'
import { done, goOn, park, unanswered, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import type { Tells } from '../../settle.ts'
import { compare, type ComparedNoun } from './drifts.ts'
import { askAgain, becoming, over, parkFor, wasParkedFor } from './parked.ts'

/** Whether we wrote the notification ourselves, to have an object looked at. */
export function isLook({ kind }: StoredNotification): boolean {
  return kind === LOOK_KIND
}

/** Where our rows of a noun are found. */
export type RowsOf<Row> = {
  noun: ProviderNoun
  byReference(context: WorkerContext, reference: string): Promise<Row | undefined>
  /** With a `reference` only unless the provider knows the row by another one. */
  byIds(context: WorkerContext, ids: RowIds, reference: string | null): Promise<Row | undefined>
}
type RowIds = { tenant_id: string; id: string }
/** A provider's record, with what we wrote into it. */
type MarkedRecord = { reference: string; metadata: Readonly<Record<string, string>> }

/**
 * Our row of a provider's record. Our own ids in its metadata come first, because a notification may arrive before the
 * answer that tells us the reference. The reference counts where the record has lost our ids. An object that merely
 * copies our ids is not ours: the row must not have another reference.
 */
export async function ownerOf<Row>(
  context: WorkerContext,
  rows: RowsOf<Row>,
  record: MarkedRecord,
): Promise<Row | undefined> {
  return (
    (await namedBy(context, rows, record, record.reference)) ??
    (await rows.byReference(context, record.reference))
  )
}

async function namedBy<Row>(
  context: WorkerContext,
  rows: RowsOf<Row>,
  { metadata }: MarkedRecord,
  reference: string | null,
): Promise<Row | undefined> {
  const ids = idsIn(metadata, rows.noun)
  return ids && (await rows.byIds(context, ids, reference))
}

/**
 * The provider's record of what news are about, and our row of it; the decision when one of them is missing. For nouns
 * that are part of no other. With `seconds` a row that is named by our ids alone, and that the provider knows by another
 * reference, has a second record there; `undo` decides what becomes of that, and undefined leaves it to a person.
 * `mayBeSecond`: the row has no reference yet, and nobody knows whether the record is its own: it waits.
 */
export async function findBoth<Row extends RowIds, Found extends MarkedRecord & { status: string }>(
  context: WorkerContext,
  notification: StoredNotification,
  news: News,
  {
    compared: noun,
    rows,
    ask,
    seconds,
    undo = () => Promise.resolve(undefined),
    mayBeSecond = () => Promise.resolve(false),
  }: {
    compared: ComparedNoun
    rows: RowsOf<Row>
    ask: () => Promise<Outcome<Found | null>>
    seconds: boolean
    undo?: (row: Row, record: Found) => Promise<Decision | undefined>
    mayBeSecond?: (row: Row, record: Found) => Promise<boolean>
  },
): Promise<{ row: Row; record: Found } | { decision: Decision }> {
  const { reference, marked } = news
  const is_look = isLook(notification)
  const find = () => rows.byReference(context, reference)
  // Without our mark and unknown here it belongs to another application: no need to fetch it.
  if (!is_look && !marked && (await find()) === undefined)
    return { decision: parkFor(context, notification, 'not_ours', { waits_for: reference }) }
  const looked = await ask()
  if (looked.kind !== 'done') return { decision: askAgain(notification, looked) }
  const record = looked.value
  const row = record === null ? await find() : await ownerOf(context, rows, record)
  if (row !== undefined && record !== null && (await mayBeSecond(row, record)))
    return {
      decision: is_look
        ? over(notification, 'ignored')
        : parkFor(context, notification, 'not_known_here', { waits_for: reference }),
    }
  if (row !== undefined && record !== null) return { row, record }
  if (row !== undefined && (is_look || wasParkedFor(notification, 'not_at_processor'))) {
    const compared = await compare(context, noun, row, null)
    if (compared.kind !== 'done') return { decision: askAgain(notification, compared) }
  }
  const seconded =
    row === undefined && record !== null ? await namedBy(context, rows, record, null) : undefined
  if (seconded !== undefined && record !== null) {
    const undone = await undo(seconded, record)
    if (undone !== undefined) return { decision: undone }
    if (seconds)
      return {
        decision: await isSecond(context, notification, news, { compared: noun, row: seconded, record }),
      }
  }
  if (is_look) return { decision: over(notification, 'ignored') }
  const reason = record === null ? 'not_at_processor' : 'not_known_here'
  return { decision: parkFor(context, notification, reason, { waits_for: reference }) }
}

/** How a record stands at its provider that has moved no money, or whose money is back. */
const MOVED_NOTHING = ['requires_action', 'failed', 'canceled', 'reversed']

/**
 * The provider has made a second one of what was asked for once, or another program uses our ids. Nothing is posted for
 * it: if it moves money, the notification stays parked, and with it a drift of the row, until an operator has seen to it.
 */
async function isSecond(
  context: WorkerContext,
  notification: StoredNotification,
  { reference }: News,
  { compared: noun, row, record }: { compared: ComparedNoun; row: RowIds; record: { status: string } },
): Promise<Decision> {
  const { tenant_id, id: subject_id } = row
  const of: SubjectKey & { subject: ProviderNoun } = { tenant_id, subject: noun.noun, subject_id }
  addLogFacts({ tenant_id, [`${noun.noun}_id`]: subject_id })
  const news = notification.id
  const ours = await findOurs(context.sql, { ...of, news })
  const is_shown = ours?.parked.some(({ object_id }) => object_id === reference)
  if (is_shown !== true && !MOVED_NOTHING.includes(record.status)) {
    const reason = `${reference} is the second that the processor has of this ${noun.noun}`
    return parkAsDrift(context, notification, { compared: noun, row, why: { code: 'second', reason } })
  }
  if (notification.reason !== 'second') return await applied(notification, of, {})
  return await applied(notification, of, { compareAfter: () => compare(context, noun, row, null, { news }) })
}

/**
 * Parks a notification until an operator retries or discards its job, and opens a drift of its row. `counts`: the attempt
 * stays used up, so that the job comes back for this comparison only.
 */
export function parkAsDrift(
  context: WorkerContext,
  notification: StoredNotification,
  {
    compared: noun,
    row: { tenant_id, id },
    why: { code, reason },
    counts = false,
  }: {
    compared: ComparedNoun
    row: RowIds
    why: { code: 'poison' | 'second'; reason: string }
    counts?: boolean
  },
): Decision {
  const of = { tenant_id, subject: noun.noun, subject_id: id }
  const tells = becoming(notification, 'parked', { reason: code, of })
  return goOn(tells, async () => {
    const compared = await compare(context, noun, { tenant_id, id }, null)
    return compared.kind === 'done' ? park(reason, { code, tells }) : unanswered(compared, { tells, counts })
  })
}

/** The ids of the row that a record bears, as we marked it; undefined when it is not marked. */
function idsIn(metadata: Readonly<Record<string, string>>, noun: ProviderNoun): RowIds | undefined {
  const { sluice_tenant_id: tenant_id, [`sluice_${noun}_id`]: id } = metadata
  return z.object({ tenant_id: z.uuid(), id: z.uuid() }).safeParse({ tenant_id, id }).data
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
