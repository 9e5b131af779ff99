// The reconciler looks up rows that stay in one state for too long. It also reads the processor's list of events, to
// find events whose notifications did not arrive.
import { z } from 'zod'
import { PROVIDER_FACTS } from '#core/config/providers.ts'
import { metrics } from '#core/metrics.ts'
import { throttle } from '#core/seldom.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { countDrifts, DRIFT_STATES } from '#domain/reconciliation/drift.ts'
import { syncUnknownDrifts } from '#domain/reconciliation/unknown-jobs.ts'
import { findDrifting, findStale, lookupsOf, type Cursor } from '#domain/reconciliation/lookups.ts'
import { adviceText } from '#domain/operations/outage-texts.ts'
import { endRun, failRun, runIfDue, renewRun, type Run } from '#domain/jobs/recurring.ts'
import { PROVIDER_RESOURCE_NAMES, resourceOf } from '#domain/resources.ts'
import type { ProviderEvent } from '#providers/events.ts'
import type { WorkerContext } from '../context.ts'
import { repeat, RunError, type Loop } from '../clock.ts'

const MAX_PAGES_PER_RUN = 50
const LOOKUP_BATCH_SIZE = 500
/** The minimum time between two warnings about unknown jobs for which no drift can be opened. */
const WARN_INTERVAL_MS = 3_600_000
/** The minimum time between two warnings that the events of the processor cannot be read. */
const UNREAD_INTERVAL_MS = 60_000

export type ReconcileOptions = {
  every_s: number
  /**
   * An event is read from the list if it is older than this, in seconds: younger events may still arrive as
   * notifications.
   */
  after_s: number
}

/** Starts both kinds of reconciling; one worker at a time performs each. */
export function startReconciler(context: WorkerContext, options: ReconcileOptions): Loop {
  const { sql, log } = context
  const events_of = `events of ${context.processor.name}`
  const interval_ms = () => options.every_s * 1000
  let has_more = false
  let closing = false
  const warnOfUncompared = throttle(
    (suppressed, jobs: string[]) =>
      log.error(
        { jobs, suppressed },
        'no drift can be opened for these unknown jobs: their resource is not compared with a provider',
      ),
    WARN_INTERVAL_MS,
  )
  const warnOfUnread = createUnreadWarning(context, context.processor.name)
  const loops = [
    repeat(log, 'reconciling', interval_ms, async () => {
      await runIfDue(sql, 'reconciling', (run) => lookUpStaleRows(context, options, run, warnOfUncompared))
    }),
    repeat(
      log,
      events_of,
      () => (has_more ? 0 : interval_ms()),
      async () => {
        has_more = false
        has_more =
          (await runIfDue(sql, events_of, (run) =>
            readEvents(context, { ...options, closed: () => closing }, run, warnOfUnread),
          )) ?? false
      },
    ),
    repeat(log, 'gauges of drifts', interval_ms, () => setGauges(context)),
  ]
  return {
    async close() {
      closing = true
      await Promise.all(loops.map((loop) => loop.close()))
    },
  }
}

/** The read position of each table, by its name. */
const cursorsSchema = z.record(
  z.string(),
  z.object({ tenant_id: z.string(), created_at: z.string() }).nullable(),
)

/**
 * Requests lookups of rows that are in progress without a job, and of open drifts. The jobs of unknown calls look up
 * their calls themselves; here only their drifts are updated.
 */
async function lookUpStaleRows(
  { sql }: WorkerContext,
  { every_s }: ReconcileOptions,
  run: Run,
  warnOfUncompared: (jobs: string[]) => void,
): Promise<void> {
  const uncompared = await syncUnknownDrifts(sql)
  if (uncompared.length > 0) warnOfUncompared(uncompared)
  const from = cursorsSchema.safeParse(run.position).data ?? {}
  const position: Record<string, Cursor> = {}
  const stale = []
  for (const resource of PROVIDER_RESOURCE_NAMES) {
    const { table } = resourceOf(resource)
    const batch = await findStale(sql, resource, from[table] ?? null)
    position[table] = batch.cursor
    stale.push(...batch.stale)
  }
  const drifts = await findDrifting(sql, from['drifts'] ?? null)
  position['drifts'] = drifts.cursor
  stale.push(...drifts.stale)
  const lookups = lookupsOf(stale)
  for (let start = 0; start < lookups.length; start += LOOKUP_BATCH_SIZE)
    await storeNotifications(sql, lookups.slice(start, start + LOOKUP_BATCH_SIZE))
  await endRun(sql, run, { position, next_s: every_s })
}

/**
 * All events up to `from_s` have been read. `range`: the range of which only some pages have been read, newest event
 * first.
 */
const eventsPosition = z.object({
  from_s: z.int(),
  range: z.object({ to_s: z.int(), after: z.string(), newest_s: z.int() }).nullable(),
})
type EventsPosition = z.output<typeof eventsPosition>

type UnreadWarning = (outcome: 'declined' | 'retry' | 'ambiguous' | 'misconfigured', reason: string) => void

/** Logs that the events could not be read, with the variables to check: at most one line a minute. */
function createUnreadWarning({ log, config }: WorkerContext, provider: string): UnreadWarning {
  const title = PROVIDER_FACTS[provider]?.title ?? provider
  return throttle((suppressed, outcome, reason) => {
    const advice = outcome === 'declined' ? '' : adviceText(provider, outcome, config)
    log.warn({ provider, outcome, reason, suppressed }, `the events of ${title} could not be read${advice}`)
  }, UNREAD_INTERVAL_MS)
}

/**
 * Reads the processor's list of events, and stores those that never arrived as notifications. Returns whether there are
 * more events; rejects if the list cannot be read.
 */
async function readEvents(
  context: WorkerContext,
  { every_s, after_s, closed }: ReconcileOptions & { closed: () => boolean },
  run: Run,
  warnOfUnread: UnreadWarning,
): Promise<boolean> {
  const { sql, processor } = context
  const now_s = Math.floor(Date.now() / 1000)
  let position: EventsPosition = eventsPosition.safeParse(run.position).data ?? {
    from_s: now_s - processor.event_retention_s,
    range: null,
  }
  for (let pages = 0; pages < MAX_PAGES_PER_RUN; pages++) {
    const { from_s, range } = position
    const to_s = range?.to_s ?? Math.max(from_s, now_s - after_s)
    const page = await processor.listEvents({ from_s, to_s, after: range?.after ?? null })
    if (page.kind !== 'done') {
      const reason = page.kind === 'declined' ? page.failure.message : page.reason
      warnOfUnread(page.kind, reason)
      // The processor may have deleted the event with which this page begins: the range is read again from the start.
      if (page.kind === 'declined') position = { from_s, range: null }
      await failRun(sql, run, { reason, position, next_s: every_s })
      throw new RunError(reason)
    }
    const { events, newest_s, last } = page.value
    await storeEvents(context, events)
    // The next range begins at the newest event that was read, by the processor's clock.
    const newest = range?.newest_s ?? newest_s ?? from_s
    position =
      last === null
        ? { from_s: newest, range: null }
        : { from_s, range: { to_s, after: last, newest_s: newest } }
    // Another worker reads the remaining pages.
    if (last === null || closed()) break
    if (!(await renewRun(sql, run, position))) return false
  }
  const has_more = position.range !== null
  await endRun(sql, run, { position, next_s: has_more ? 0 : every_s })
  return has_more
}

/** Stores events like notifications. An event that also arrives as a notification is stored once. */
async function storeEvents({ sql, log, processor }: WorkerContext, events: ProviderEvent[]): Promise<void> {
  const notifications = events.map((event) => ({
    ...notificationOf(processor.name, event),
    will_wake: false,
    request_id: null,
  }))
  if (notifications.length === 0) return
  const stored = await storeNotifications(sql, notifications)
  if (stored.length === 0) return
  metrics.eventsRecovered.inc({ provider: processor.name }, stored.length)
  log.warn(
    { events: stored.length },
    'notifications did not arrive and were read from the processor: check that the webhooks host runs and has the signing secret of the endpoint',
  )
}

async function setGauges({ sql }: WorkerContext): Promise<void> {
  const drifts = await countDrifts(sql)
  for (const state of DRIFT_STATES)
    metrics.drifts.set({ state }, drifts.find((each) => each.state === state)?.count ?? 0)
  metrics.oldestDrift.set(Math.max(0, ...drifts.map(({ oldest_s }) => oldest_s)))
}
