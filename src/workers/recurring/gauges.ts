// Gauges of what waits: parked notifications, and jobs whose effect is unknown.
import { metrics } from '#core/metrics.ts'
import { countUnknown } from '#domain/jobs/outcomes.ts'
import { countParked } from '#domain/notifications.ts'
import { every, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** A gauge that says "many" need not count them all. */
const MOST_COUNTED = 10_000

/** Sets them, safely in several workers at once. */
export function gauge({ sql, log }: WorkerContext): Loop {
  return every(
    log,
    'gauges',
    () => 5_000,
    async () => {
      for (const { reason, count } of await countParked(sql, MOST_COUNTED))
        metrics.parked.set({ reason }, count)
      metrics.unknown.set(await countUnknown(sql))
    },
  )
}
