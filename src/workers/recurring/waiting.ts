// Compares waiting notifications once more when they are due.
import { settleWaiting } from '#domain/notifications/store.ts'
import type { WorkerContext } from '../context.ts'
import { every, type Loop } from '../clock.ts'

const LOOK_MS = 500
const AT_ONCE = 500

/** Starts the loop; safe in several workers at once. */
export function settleWhatWaits({ sql, log }: WorkerContext): Loop {
  let more = false
  return every(
    log,
    'waiting notifications',
    () => (more ? 0 : LOOK_MS),
    async () => {
      more = (await settleWaiting(sql, AT_ONCE)).length === AT_ONCE
    },
  )
}
