// Compares waiting notifications again when they are due.
import { metrics } from '#core/metrics.ts'
import { compareWaiting } from '#domain/notifications/store.ts'
import type { WorkerContext } from '../context.ts'
import { repeatWhileCurrent, type Loop } from '../clock.ts'
import { POLL_INTERVAL_MS, type HasWork } from '../polled-work.ts'
import { createScanReach } from '../scan-reach.ts'

const BATCH_SIZE = 500
/** The interval of comparisons while notifications wait. */
const COMPARE_INTERVAL_MS = 100

/** Starts the loop; safe in several workers at once. */
export function compareWaitingNotifications(
  { sql, log, database, job_log }: WorkerContext,
  hasWork: HasWork,
): Loop {
  let found = 0
  const scan_reach = createScanReach('notifications')
  return repeatWhileCurrent(
    { log, database },
    'waiting notifications',
    () => (found === BATCH_SIZE ? 0 : found > 0 ? COMPARE_INTERVAL_MS : POLL_INTERVAL_MS),
    async () => {
      if (found === 0 && !(await hasWork('notifications'))) return
      found = 0
      const reach = scan_reach.next()
      const began_at = performance.now()
      const compared = await compareWaiting(sql, BATCH_SIZE, reach)
      scan_reach.measured(reach, performance.now() - began_at, compared.length)
      found = compared.length
      for (const notification of compared) {
        if (notification.state === 'waiting') continue
        if (notification.livemode) metrics.notificationsWaited.inc({ state: notification.state })
        job_log.waited(notification)
      }
    },
  )
}
