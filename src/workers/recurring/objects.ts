// Reads the providers' lists of objects by creation time, and requests lookups of objects that have no row here or
// another state. So an object is found even if the provider never made an event about it.
import { z } from 'zod'
import { metrics } from '#core/metrics.ts'
import { endRun, failRun, renewRun, runIfDue, type Run } from '#domain/jobs/recurring.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { compareListed, LISTED_RESULTS, type ListedResult } from '#domain/reconciliation/listed.ts'
import { failUncoveredPayouts } from '#domain/payouts/uncovered.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import {
  findReadSwitch,
  findUnreadSwitches,
  hurryReader,
  recordListsRead,
  type UnreadSwitches,
} from '#domain/reconciliation/unread-switches.ts'
import { PROVIDER_RESOURCE_NAMES } from '#domain/resources.ts'
import type { ListedObject, ObjectLists } from '#providers/objects.ts'
import type { WorkerContext } from '../context.ts'
import { repeat, RunError, type Loop } from '../clock.ts'
import { eventReaderOf, HELD_INTERVAL_MS, type UnreadWarning } from './events.ts'

/** The period that each regular run reads. */
const PERIOD_S = 48 * 3600
const MAX_PAGES_PER_RUN = 50

export type ObjectsOptions = {
  /** How often the loop checks whether a run is due. */
  check_every_s: number
  every_s: number
  /** Objects younger than this are not compared: our own calls and notifications about them may be in progress. */
  after_s: number
}

const counts = z.record(z.enum(LISTED_RESULTS), z.int())
/** The result of a run, and of the pages that a run has read so far. */
export const objectsResult = z.object({
  from_s: z.int(),
  to_s: z.int(),
  /** The numbers of objects by list and result. */
  lists: z.record(z.string(), counts),
})
type ObjectsResult = z.output<typeof objectsResult>

const objectsPosition = z.object({
  began_for: z.int(),
  read_for: z.int(),
  /** The run of which only some pages have been read: the next page is of the list with this number. */
  range: z.object({ list: z.int(), after: z.string().nullable(), result: objectsResult }).nullable(),
})
type ObjectsPosition = z.output<typeof objectsPosition>

/** The lists of all providers of money and identity, in the order in which they are read: payments before refunds. */
function listsOf({ processor, payouts, top_ups, identity }: WorkerContext) {
  return [processor, payouts, top_ups, identity].flatMap(({ name: provider, lists }) =>
    Object.entries(lists).map(([name, read]) => ({ provider, name, read })),
  )
}
type List = { provider: string; name: string; read: ObjectLists[string] }

/** Starts the reading of lists; one worker at a time reads. */
export function startObjectReader(
  context: WorkerContext,
  options: ObjectsOptions,
  warnOfUnread: UnreadWarning,
): Loop {
  const { sql, database, log, processor } = context
  const name = `objects of ${processor.name}`
  let has_more = false
  let next_at = performance.now() + options.check_every_s * 1000
  let closing = false
  const loop = repeat(
    log,
    name,
    () => (has_more ? 0 : HELD_INTERVAL_MS),
    async () => {
      if (!has_more && performance.now() < next_at && !database.isHeld()) return
      has_more = false
      next_at = performance.now() + options.check_every_s * 1000
      const unread = await findUnreadSwitches(sql, options.after_s)
      if (unread !== undefined) {
        const number = await findReadSwitch(sql, processor.name, [name, eventReaderOf(processor.name)])
        if (number >= unread.number) await failUncoveredPayouts(sql)
        await recordListsRead(sql, number)
        await hurryReader(sql, name, unread)
      }
      has_more =
        (await runIfDue(sql, name, (run) =>
          readObjects(context, { ...options, unread, closed: () => closing, warnOfUnread }, run),
        )) ?? false
    },
  )
  return {
    async close() {
      closing = true
      await loop.close()
    },
  }
}

type ReadOptions = ObjectsOptions & {
  unread: UnreadSwitches | undefined
  closed: () => boolean
  warnOfUnread: UnreadWarning
}

/** Reads pages of the lists. Returns whether there are more; rejects if a list cannot be read. */
async function readObjects(context: WorkerContext, options: ReadOptions, run: Run): Promise<boolean> {
  const { sql } = context
  const lists = listsOf(context)
  let position = beginPosition(run, options)
  let { range } = position
  for (let pages = 0; range !== null && pages < MAX_PAGES_PER_RUN; pages++) {
    const { result, after } = range
    const list = lists[range.list]!
    const page = await list.read({ from_s: result.from_s, to_s: result.to_s, after })
    if (page.kind !== 'done') {
      const reason = page.kind === 'declined' ? page.failure.message : page.reason
      options.warnOfUnread('lists', page.kind, reason)
      // The object with which this page begins may be gone: the list is read again from the start.
      if (page.kind === 'declined') position = { ...position, range: { ...range, after: null } }
      await failRun(sql, run, { reason, position, next_s: options.check_every_s })
      throw new RunError(reason)
    }
    const found = await requestLookups(context, list, page.value.objects, result)
    const next = { after: page.value.last, list: page.value.last === null ? range.list + 1 : range.list }
    position = { ...position, range: { ...next, result: withCounts(result, list.name, found) } }
    range = next.list < lists.length ? position.range : null
    // Another worker reads the remaining pages.
    if (range === null || options.closed()) break
    if (!(await renewRun(sql, run, position))) return false
  }
  const { result } = position.range!
  if (range !== null) {
    await endRun(sql, run, { position, result: run.result, next_s: 0 })
    return true
  }
  const { unread } = options
  // What was created before the switch was recorded has been read.
  const read_for =
    unread !== undefined && result.to_s >= unread.switched_s ? position.began_for : position.read_for
  position = { ...position, read_for, range: null }
  await endRun(sql, run, { position, result, next_s: read_for < position.began_for ? 1 : options.every_s })
  return false
}

/** The position at which a run begins. After a switch of the database, everything since then is read. */
function beginPosition(run: Run, { unread, after_s }: ReadOptions): ObjectsPosition {
  const stored = objectsPosition.safeParse(run.position).data ?? { began_for: 0, read_for: 0, range: null }
  const is_behind = unread !== undefined && stored.read_for < unread.number
  const restarts = is_behind && stored.began_for < unread.number
  if (stored.range !== null && !restarts) return stored
  // After a switch, lookups of objects whose calls are in progress do no harm.
  const to_s = Math.floor(Date.now() / 1000) - (is_behind ? 0 : after_s)
  const from_s = is_behind ? Math.min(unread.from_s, to_s) : to_s - PERIOD_S
  const range = { list: 0, after: null, result: { from_s, to_s, lists: {} } }
  return { ...stored, began_for: is_behind ? unread.number : stored.began_for, range }
}

/** Requests lookups of the objects that have no row or another state. Returns the results of the comparison. */
async function requestLookups(
  { sql, log }: WorkerContext,
  { provider, name }: List,
  objects: ListedObject[],
  { to_s }: ObjectsResult,
): Promise<ListedResult[]> {
  const results = await compareListed(sql, provider, objects)
  const lookups = objects.flatMap(({ resource: named, reference, installation, reported }, nth) => {
    const resource = PROVIDER_RESOURCE_NAMES.find((each) => each === named)
    const result = results[nth]!
    if (resource === undefined || (result !== 'missing' && result !== 'differs')) return []
    // An object of ours without a row is looked up by each run until it has a row; another one once for each state.
    const state = result === 'missing' && installation !== null ? to_s : JSON.stringify(reported)
    return [requestLookup(provider, { resource, reference }, `listed:${state}`)]
  })
  if (lookups.length > 0) await storeNotifications(sql, lookups)
  for (const result of results) metrics.listedObjects.inc({ list: name, result })
  const missing = results.filter((result) => result === 'missing').length
  if (missing > 0)
    log.warn(
      { provider, list: name, objects: missing },
      'objects of the provider have no row here: they are looked up',
    )
  return results
}

function withCounts(result: ObjectsResult, list: string, found: ListedResult[]): ObjectsResult {
  const before: Partial<Record<ListedResult, number>> = result.lists[list] ?? {}
  const total = LISTED_RESULTS.map((each) => [
    each,
    (before[each] ?? 0) + found.filter((one) => one === each).length,
  ])
  return { ...result, lists: { ...result.lists, [list]: Object.fromEntries(total) } }
}
