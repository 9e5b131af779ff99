// Sets the gauges of parked notifications, retrying jobs, unknown jobs, and failing recurring work.
import { metrics } from '#core/metrics.ts'
import { findFailingRuns } from '#domain/jobs/recurring.ts'
import { findRetryingOfQueues } from '#domain/jobs/retrying.ts'
import { countUnknown } from '#domain/jobs/states.ts'
import { countParked } from '#domain/notifications/notification.ts'
import { repeat, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** The maximum value of a gauge: counting stops at this number. */
const MAX_COUNTED = 10_000

/** Sets the gauges every few seconds, in each worker. */
export function startGauges({ sql, log }: WorkerContext): Loop {
  return repeat(
    log,
    'gauges',
    () => 5_000,
    async () => {
      for (const { reason, count } of await countParked(sql, MAX_COUNTED))
        metrics.parked.set({ reason }, count)
      metrics.recurringFailing.reset()
      for (const { name, failing_s } of await findFailingRuns(sql))
        metrics.recurringFailing.set({ work: name }, failing_s)
      metrics.unknown.set(await countUnknown(sql))
      for (const [queue, { retrying, oldest_s }] of await findRetryingOfQueues(sql)) {
        metrics.retrying.set({ queue }, retrying)
        metrics.oldestRetrying.set({ queue }, oldest_s)
      }
    },
  )
}
