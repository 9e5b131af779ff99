// Sets the gauges that are read from the database: jobs, outages of providers, parked notifications, failing recurring
// work, events and deliveries, partitions, old transactions, and switches of the database.
import type { Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { findDueDeliveries } from '#domain/deliveries/late.ts'
import { findOldestUnsequencedAge } from '#domain/sequencing.ts'
import { findPartitionsAhead } from '#domain/history.ts'
import { findFailingRuns } from '#domain/jobs/recurring.ts'
import { findRetryingOfQueues } from '#domain/jobs/retrying.ts'
import { countUnknown } from '#domain/jobs/states.ts'
import { countParked } from '#domain/notifications/notification.ts'
import { findOutages } from '#domain/operations/provider-outages.ts'
import { findSampledJobs } from '#domain/operations/sampled-jobs.ts'
import { countSwitches } from '#domain/switches/find.ts'
import { repeat, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'
import { createDatabaseGauges } from './database-gauges.ts'

/** The maximum value of a gauge: counting stops at this number. */
const MAX_COUNTED = 10_000
const INTERVAL_MS = 5_000
/** Partitions change once a week. */
const PARTITIONS_INTERVAL_MS = 60_000
/**
 * With large backlogs the gauges are read less often, so that they take at most a hundredth of the database's time, and
 * while the worker is idle.
 */
const TIME_SHARE = 100
const MAX_INTERVAL_MS = 20_000

/** Sets the gauges every few seconds, in each worker. */
export function startGauges({ sql, log, idleness }: WorkerContext): Loop {
  const setDatabaseGauges = createDatabaseGauges()
  const setPartitionGauges = createPartitionGauges()
  let took_ms = 0
  const usual_ms = idleness.interval(INTERVAL_MS)
  const interval_ms = () => Math.min(MAX_INTERVAL_MS, Math.max(usual_ms(), TIME_SHARE * took_ms))
  return repeat(log, 'gauges', interval_ms, async () => {
    const began_at = performance.now()
    // The gauges of the other groups are set even if one group fails.
    const failures: unknown[] = []
    const groups = [setJobGauges, setEventGauges, setDatabaseGauges, setPartitionGauges, setSwitchCounts]
    for (const setGauges of groups) await setGauges(sql).catch((error: unknown) => failures.push(error))
    took_ms = performance.now() - began_at
    if (failures.length > 0) throw failures[0]
  })
}

function createPartitionGauges(): (sql: Sql) => Promise<void> {
  let set_at = -Infinity
  return async (sql) => {
    if (performance.now() - set_at < PARTITIONS_INTERVAL_MS) return
    set_at = performance.now()
    for (const { table, days } of await findPartitionsAhead(sql)) metrics.partitionsAhead.set({ table }, days)
  }
}

async function setJobGauges(sql: Sql): Promise<void> {
  metrics.recurringFailing.reset()
  for (const { name, failing_s } of await findFailingRuns(sql))
    metrics.recurringFailing.set({ work: name }, failing_s)
  metrics.unknown.set(await countUnknown(sql))
  for (const [queue, { retrying, oldest_s }] of await findRetryingOfQueues(sql)) {
    metrics.retrying.set({ queue }, retrying)
    metrics.oldestRetrying.set({ queue }, oldest_s)
  }
  const sampled = await findSampledJobs(sql)
  for (const gauge of [metrics.jobsWaiting, metrics.jobsRunning, metrics.jobsParked]) gauge.reset()
  for (const { queue, waiting, running, parked } of sampled) {
    metrics.jobsWaiting.set({ queue }, waiting)
    metrics.jobsRunning.set({ queue }, running)
    metrics.jobsParked.set({ queue }, parked)
  }
  const outages = await findOutages(sql)
  metrics.outage.reset()
  for (const { provider, operations, lasts_s } of outages)
    for (const operation of operations.length === 0 ? [''] : operations)
      metrics.outage.set({ provider, operation }, lasts_s)
}

async function setEventGauges(sql: Sql): Promise<void> {
  for (const { reason, count } of await countParked(sql, MAX_COUNTED)) metrics.parked.set({ reason }, count)
  metrics.oldestUnsequenced.set(await findOldestUnsequencedAge(sql))
  const { late, oldest_due_s } = await findDueDeliveries(sql, MAX_COUNTED)
  metrics.deliveriesLate.set(late)
  metrics.oldestDueDelivery.set(oldest_due_s)
}

/** The database counts, because a command of an operator records switches too. */
async function setSwitchCounts(sql: Sql): Promise<void> {
  const counts = await countSwitches(sql)
  metrics.databaseSwitches.reset()
  for (const { kind, count } of counts) metrics.databaseSwitches.inc({ kind }, count)
}
