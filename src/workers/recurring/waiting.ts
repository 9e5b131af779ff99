// Compares waiting notifications once more when they are due.
import { metrics } from '#core/metrics.ts'
import { compareWaiting } from '#domain/notifications/store.ts'
import type { WorkerContext } from '../context.ts'
import { every, type Loop } from '../clock.ts'

const AT_ONCE = 500
/** How often it looks: while some wait, and while none do. */
const LOOK_MS = 100
const SELDOM_MS = 1_000

/** Starts the loop; safe in several workers at once. */
export function compareWhatWaits({ sql, log, job_log }: WorkerContext): Loop {
  let found = 0
  return every(
    log,
    'waiting notifications',
    () => (found === AT_ONCE ? 0 : found > 0 ? LOOK_MS : SELDOM_MS),
    async () => {
      found = 0
      const compared = await compareWaiting(sql, AT_ONCE)
      found = compared.length
      for (const one of compared) {
        if (one.state === 'waiting') continue
        metrics.notificationsWaited.inc({ state: one.state })
        job_log.waited(one)
      }
    },
  )
}
