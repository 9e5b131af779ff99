// The reconciler looks up rows that stay in one state for too long, and sets the gauges of drifts. Two readers of the
// processor's lists find what was not reported, in each mode: events, and objects.
import { z } from 'zod'
import { hasSandboxProcessor, PAYMENTS, providerKey } from '#core/config/providers.ts'
import { metrics } from '#core/metrics.ts'
import { throttle } from '#core/seldom.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { countDrifts, DRIFT_STATES } from '#domain/reconciliation/drift.ts'
import { syncUnknownDrifts } from '#domain/reconciliation/unknown-jobs.ts'
import { findDrifting, findStale, lookupsOf, type Cursor } from '#domain/reconciliation/lookups.ts'
import { endRun, runIfDue, type Run } from '#domain/jobs/recurring.ts'
import { PROVIDER_RESOURCE_NAMES, resourceOf } from '#domain/resources.ts'
import type { WorkerContext } from '../context.ts'
import { repeat, repeatWhileCurrent, type Loop } from '../clock.ts'
import { startEventReader } from './events.ts'
import { startObjectReader } from './objects.ts'
import { createListWarning, type ListWarning } from './list-warning.ts'

const LOOKUP_BATCH_SIZE = 500
/** The minimum time between two warnings about unknown jobs for which no drift can be opened. */
const WARN_INTERVAL_MS = 3_600_000

export type ReconcileOptions = {
  every_s: number
  /**
   * What is younger than this, in seconds, is not read from the lists of the processor: it may still arrive as a
   * notification.
   */
  after_s: number
  /** How often the lists of objects are read; null: this worker cannot read all of them. */
  objects_every_s: number | null
}

/** Starts all kinds of reconciling; one worker at a time performs each. */
export function startReconciler(context: WorkerContext, options: ReconcileOptions): Loop {
  const { sql, log, database, idleness, processor } = context
  const interval_ms = idleness.interval(options.every_s * 1000)
  const warnOfFailing = createListWarning(context, processor.name, () =>
    database.isHeld() ? 'awaited' : 'none',
  )
  const warnOfUncompared = throttle(
    (suppressed, jobs: string[]) =>
      log.error(
        { jobs, suppressed },
        'no drift can be opened for these unknown jobs: their resource is not compared with a provider',
      ),
    WARN_INTERVAL_MS,
  )
  const loops = [
    repeatWhileCurrent(context, 'reconciling', interval_ms, async () => {
      await runIfDue(sql, 'reconciling', (run) => lookUpStaleRows(context, options, run, warnOfUncompared))
    }),
    ...startReaders(context, options, warnOfFailing),
    ...startTestReaders(context, options),
    repeat(log, 'gauges of drifts', interval_ms, () => setGauges(context)),
  ]
  return {
    async close() {
      await Promise.all(loops.map((loop) => loop.close()))
    },
  }
}

/** Reads the lists of the processor in the mode of the context. */
function startReaders(
  context: WorkerContext,
  { every_s, after_s, objects_every_s }: ReconcileOptions,
  warnOfFailing: ListWarning,
): Loop[] {
  const of_objects = { check_every_s: every_s, every_s: objects_every_s ?? 0, after_s }
  return [
    startEventReader(context, { every_s, after_s }, warnOfFailing),
    ...(objects_every_s === null ? [] : [startObjectReader(context, of_objects, warnOfFailing)]),
  ]
}

/** Reads the lists of test mode, if it has an account at the processor. */
function startTestReaders(live: WorkerContext, options: ReconcileOptions): Loop[] {
  if (hasSandboxProcessor(live.config)) return []
  const context = { ...live.modes.contextOf(false), sql: live.sql }
  const warnOfFailing = createListWarning(context, providerKey(PAYMENTS.provider, false), () => 'none')
  return startReaders(context, options, warnOfFailing)
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

async function setGauges({ sql }: WorkerContext): Promise<void> {
  const drifts = await countDrifts(sql)
  for (const state of DRIFT_STATES)
    metrics.drifts.set({ state }, drifts.find((each) => each.state === state)?.count ?? 0)
  metrics.oldestDrift.set(Math.max(0, ...drifts.map(({ oldest_s }) => oldest_s)))
}
