// Reads the providers' lists of objects by creation time, and requests lookups of objects that have no row here or
// another state. So an object is found even if the provider never made an event about it.
import { providerKey } from '#core/config/providers.ts'
import { metrics } from '#core/metrics.ts'
import { endRun, failRun, renewRun, type Run } from '#domain/jobs/recurring.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { compareListed, LISTED_RESULTS, type ListedResult } from '#domain/reconciliation/listed.ts'
import { failUncoveredPayouts } from '#domain/payouts/uncovered.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import { clearFailingList, recordFailingList } from '#domain/reconciliation/failing-lists.ts'
import {
  findReadSwitch,
  recordListed,
  recordListsRead,
  type UnreadSwitches,
} from '#domain/reconciliation/unread-switches.ts'
import { PROVIDER_RESOURCE_NAMES } from '#domain/resources.ts'
import type { ListedObject } from '#providers/objects.ts'
import type { WorkerContext } from '../context.ts'
import { RunError, type Loop } from '../clock.ts'
import { eventReaderOf } from './events.ts'
import {
  beginPosition,
  listsToRead,
  type ObjectsResult,
  type RequiredList,
  type ReadingPosition,
} from './objects-position.ts'
import { startReader, type ListReading } from './reader.ts'
import type { ListFailure, ListWarning } from './list-warning.ts'

const MAX_PAGES_PER_RUN = 50

export type ObjectsOptions = {
  /** How often the loop checks whether a run is due. */
  check_every_s: number
  every_s: number
  /** Objects younger than this are not compared: our own calls and notifications about them may be in progress. */
  after_s: number
}

/** Starts the reading of lists. */
export function startObjectReader(
  context: WorkerContext,
  options: ObjectsOptions,
  warnOfFailing: ListWarning,
): Loop {
  const { sql, processor, livemode } = context
  const key = providerKey(processor.name, livemode)
  const name = `objects of ${key}`
  const beforeReading = async (unread: UnreadSwitches) => {
    await recordListed(sql, [name, eventReaderOf(key)])
    const number = await findReadSwitch(sql, processor.name)
    if (number >= unread.number) await failUncoveredPayouts(sql)
    await recordListsRead(sql, number)
  }
  return startReader(context, {
    ...options,
    name,
    // Nothing waits for the lists of test mode.
    ...(livemode && { beforeReading }),
    read: (run, reading) => readObjects(context, { ...options, ...reading, warnOfFailing }, run),
  })
}

type ReadOptions = ObjectsOptions & ListReading & { warnOfFailing: ListWarning }

/**
 * Reads pages of the lists. A list that cannot be read does not stop the others. Returns whether there are more pages;
 * rejects after the last one if a list could not be read.
 */
async function readObjects(context: WorkerContext, options: ReadOptions, run: Run): Promise<boolean> {
  const { sql } = context
  const { unread, every_s, check_every_s } = options
  const lists = listsToRead(context)
  let position = beginPosition(run.position, lists, options)
  const failures: ListFailure[] = []
  for (let pages = 0; position.range.lists.length > 0 && pages < MAX_PAGES_PER_RUN; pages++) {
    const failure = await readPage(context, lists, position, unread)
    if (failure !== null) failures.push(failure)
    // Another worker reads the remaining pages.
    if (options.mustEnd()) break
    if (!(await renewRun(sql, run, position))) return false
  }
  if (failures.length > 0) options.warnOfFailing(failures)
  const { range, ...read } = position
  if (range.lists.length > 0) {
    await endRun(sql, run, { position, result: run.result, next_s: 0 })
    return true
  }
  if (range.failed.length > 0) {
    const reason = range.failed.map(({ name, error }) => `${name}: ${error}`).join('; ')
    await failRun(sql, run, { reason, position, result: range.result, next_s: check_every_s })
    throw new RunError(reason)
  }
  const read_for = unread !== undefined && read.unread.length === 0 ? read.began_for : read.read_for
  await endRun(sql, run, {
    position: { ...read, read_for, range: null },
    result: range.result,
    next_s: read_for < read.began_for ? 1 : every_s,
  })
  return false
}

/** Reads the next page, and updates the position. Returns why the list could not be read; null if it could. */
async function readPage(
  context: WorkerContext,
  lists: RequiredList[],
  position: ReadingPosition,
  unread: UnreadSwitches | undefined,
): Promise<ListFailure | null> {
  const { sql, livemode } = context
  const { range } = position
  const [next, ...others] = range.lists
  const list = lists.find(({ name }) => name === next!.name)
  if (list === undefined) throw new Error(`no provider has the list ${next!.name}`)
  const { provider, name } = list
  const { from_s, to_s } = range.result
  const page = await list.read({ from_s, to_s, after: next!.after })
  if (page.kind === 'done') {
    const found = await requestLookups(context, list, page.value.objects, range.result)
    range.result = withCounts(range.result, name, found)
    if (page.value.last !== null) {
      range.lists = [{ name, after: page.value.last }, ...others]
      return null
    }
  } else if (list.is_required || !isRefused(page.kind)) {
    const error = page.kind === 'declined' ? page.failure.message : page.reason
    // The object with which this page begins may be gone: a list that was declined is read again from the start.
    const after = page.kind === 'declined' ? null : next!.after
    range.lists = others
    range.failed.push({ name, after, error })
    if (livemode) await recordFailingList(sql, { provider, list: name, error })
    return { list: name, outcome: page.kind, reason: error }
  }
  range.lists = others
  // What was created before the switch was recorded has been read.
  if (unread !== undefined && to_s >= unread.switched_s)
    position.unread = position.unread.filter((each) => each !== name)
  if (livemode) await clearFailingList(sql, { provider, list: name })
  return null
}

/** Whether the provider refuses the list: it may have nothing for an area that is switched off. */
function isRefused(outcome: ListFailure['outcome']): boolean {
  return outcome === 'declined' || outcome === 'misconfigured'
}

/** Requests lookups of the objects that have no row or another state. Returns the results of the comparison. */
async function requestLookups(
  { sql, log, livemode }: WorkerContext,
  { provider, name }: RequiredList,
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
    const lookup = { resource, reference, tenant_id: null }
    return [requestLookup({ provider, livemode }, lookup, `listed:${state}`)]
  })
  if (lookups.length > 0) await storeNotifications(sql, lookups)
  if (livemode) for (const result of results) metrics.listedObjects.inc({ list: name, result })
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
