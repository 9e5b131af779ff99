// Reads the processor's list of events, to find events whose notifications did not arrive.
import { z } from 'zod'
import { providerKey } from '#core/config/providers.ts'
import { metrics } from '#core/metrics.ts'
import { endRun, failRun, renewRun, type Run } from '#domain/jobs/recurring.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { clearFailingList, recordFailingList } from '#domain/reconciliation/failing-lists.ts'
import type { ProviderEvent } from '#providers/events.ts'
import type { WorkerContext } from '../context.ts'
import { RunError, type Loop } from '../clock.ts'
import { startReader, type ListReading } from './reader.ts'
import type { ListWarning } from './list-warning.ts'

const MAX_PAGES_PER_RUN = 50
/** The name of the list of events. */
const LIST = 'events'

export type EventsOptions = {
  every_s: number
  /** Events younger than this, in seconds, may still arrive as notifications. */
  after_s: number
}

/** The name of the recurring work that reads the events of a provider. `provider`: its key. */
export function eventReaderOf(provider: string): string {
  return `events of ${provider}`
}

/** Starts the reading of events. */
export function startEventReader(
  context: WorkerContext,
  options: EventsOptions,
  warnOfFailing: ListWarning,
): Loop {
  return startReader(context, {
    name: eventReaderOf(providerKey(context.processor.name, context.livemode)),
    check_every_s: options.every_s,
    after_s: options.after_s,
    read: (run, reading) => readEvents(context, { ...options, ...reading }, run, warnOfFailing),
  })
}

/**
 * All events up to `from_s` have been read. `range`: the range of which only some pages have been read, newest event
 * first.
 */
const eventsPosition = z.object({
  from_s: z.int(),
  began_for: z.int().default(0),
  read_for: z.int().default(0),
  range: z.object({ to_s: z.int(), after: z.string(), newest_s: z.int() }).nullable(),
})
type EventsPosition = z.output<typeof eventsPosition>

/**
 * Reads the processor's list of events, and stores those that never arrived as notifications. Returns whether there are
 * more events; rejects if the list cannot be read.
 */
async function readEvents(
  context: WorkerContext,
  { every_s, after_s, unread, mustEnd }: EventsOptions & ListReading,
  run: Run,
  warnOfFailing: ListWarning,
): Promise<boolean> {
  const { sql, processor, livemode } = context
  const now_s = Math.floor(Date.now() / 1000)
  let position: EventsPosition = eventsPosition.safeParse(run.position).data ?? {
    from_s: now_s - processor.event_retention_s,
    began_for: 0,
    read_for: 0,
    range: null,
  }
  // After a switch of the database, the events since then are read again, up to now.
  const is_behind = unread !== undefined && position.read_for < unread.number
  if (is_behind && position.began_for < unread.number) {
    const from_s = Math.min(position.from_s, unread.from_s)
    position = { ...position, from_s, began_for: unread.number, range: null }
  }
  for (let pages = 0; pages < MAX_PAGES_PER_RUN; pages++) {
    const { from_s, range } = position
    const to_s = range?.to_s ?? Math.max(from_s, is_behind ? now_s : now_s - after_s)
    const page = await processor.listEvents({ from_s, to_s, after: range?.after ?? null })
    if (page.kind !== 'done') {
      const reason = page.kind === 'declined' ? page.failure.message : page.reason
      warnOfFailing([{ list: LIST, outcome: page.kind, reason }])
      // Nothing of live mode waits for a list of test mode.
      if (livemode) await recordFailingList(sql, { provider: processor.name, list: LIST, error: reason })
      // The processor may have deleted the event with which this page begins: the range is read again from the start.
      if (page.kind === 'declined') position = { ...position, range: null }
      await failRun(sql, run, { reason, position, next_s: every_s })
      throw new RunError(reason)
    }
    const { events, newest_s, last } = page.value
    await storeEvents(context, events, is_behind)
    // The next range begins at the newest event that was read, by the processor's clock.
    const newest = range?.newest_s ?? newest_s ?? from_s
    position =
      last === null
        ? { ...position, from_s: newest, range: null }
        : { ...position, range: { to_s, after: last, newest_s: newest } }
    if (last === null && unread !== undefined && to_s >= unread.switched_s)
      position = { ...position, read_for: position.began_for }
    // Another worker reads the remaining pages.
    if (last === null || mustEnd()) break
    if (!(await renewRun(sql, run, position))) return false
  }
  const has_more = position.range !== null
  if (!has_more && livemode) await clearFailingList(sql, { provider: processor.name, list: LIST })
  await endRun(sql, run, { position, next_s: has_more ? 0 : every_s })
  return has_more
}

/**
 * Stores events like notifications. An event that also arrives as a notification is stored once. `since_switch`: a
 * switch of the database may have lost their notifications.
 */
async function storeEvents(
  { sql, log, processor, livemode }: WorkerContext,
  events: ProviderEvent[],
  since_switch: boolean,
): Promise<void> {
  const notifications = events.map((event) => ({
    ...notificationOf({ provider: processor.name, livemode }, event),
    will_wake: false,
    request_id: null,
  }))
  if (notifications.length === 0) return
  const stored = await storeNotifications(sql, notifications)
  if (stored.length === 0) return
  if (since_switch) {
    log.warn(
      { events: stored.length },
      'notifications that the switch of the database has lost, or that have not arrived yet, were read from the processor',
    )
    return
  }
  if (livemode) metrics.eventsRecovered.inc({ provider: processor.name }, stored.length)
  log.warn(
    { events: stored.length },
    'notifications did not arrive and were read from the processor: check that the webhooks host runs and has the signing secret of the endpoint',
  )
}
