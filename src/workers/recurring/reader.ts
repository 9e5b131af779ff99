// Starts the readers of the lists of a provider. After a switch of the database, each reads its lists at once.
import { runIfDue, type Run } from '#domain/jobs/recurring.ts'
import {
  findUnreadSwitches,
  runReaderNow,
  type UnreadSwitches,
} from '#domain/reconciliation/unread-switches.ts'
import { repeatWhileCurrent, type Loop, type MustEnd } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** How often the lists are read while jobs wait for that, since a switch of the database. */
const HELD_INTERVAL_MS = 1_000

export type Reader = {
  /** The name of the recurring work. */
  name: string
  /** How often the loop checks whether a run is due. */
  check_every_s: number
  /** How long after a switch its lists are read. */
  after_s: number
  /** Runs before each reading while there are switches whose lists have not been read. */
  beforeReading?: (unread: UnreadSwitches) => Promise<void>
  /** Reads pages of the lists. Returns whether there are more pages; rejects if a list could not be read. */
  read: (run: Run, reading: ListReading) => Promise<boolean>
}

/** Once `mustEnd` returns true, a reader ends after its page, and another worker reads the remaining pages. */
export type ListReading = { unread: UnreadSwitches | undefined; mustEnd: MustEnd }

/** Starts the reader; one worker at a time reads. */
export function startReader(
  { sql, database, log, idleness, livemode }: WorkerContext,
  { name, check_every_s, after_s, beforeReading, read }: Reader,
): Loop {
  let has_more = false
  const interval_ms = idleness.interval(check_every_s * 1000)
  let checked_at = performance.now()
  return repeatWhileCurrent(
    { log, database },
    name,
    () => (has_more ? 0 : HELD_INTERVAL_MS),
    async (mustEnd) => {
      if (!has_more && performance.now() - checked_at < interval_ms() && !database.isHeld()) return
      has_more = false
      checked_at = performance.now()
      const unread = await findUnreadSwitches(sql, { reader: name, livemode, after_s })
      if (unread !== undefined) {
        await beforeReading?.(unread)
        await runReaderNow(sql, name, unread)
      }
      has_more = (await runIfDue(sql, name, (run) => read(run, { unread, mustEnd }))) ?? false
    },
  )
}
