// How far back the sequencer reads the outbox. While a session holds an old snapshot, the index of the outbox keeps the
// entries of deleted rows, so most runs read only the recent rows. No event may be left behind: later events of its
// resource would get their sequences before it. An event can become visible long after it was created, because its
// transaction took long, or waited in its commit for a standby.
import type { Sql } from '#core/db.ts'
import { findOpenWrites, type OpenWrites } from '#domain/sequencing.ts'

/** How far the clock of the server may be set back, in seconds, without an event being missed until all are read. */
const MARGIN_S = 10
/** The interval of moments at which the rows that are recent are determined again. */
const INTERVAL_MS = 5_000
/** The interval of attempts, while a transaction stays open or a run leaves events. */
const RETRY_MS = 1_000
/**
 * The least interval of runs that read all, and the interval in times of the last one. They find what such a clock
 * left.
 */
const FULL_INTERVAL_MS = 30_000
const FULL_OF_RUN = 30

export type OutboxReach = {
  /** Since when the next run must read the outbox, in Unix seconds. -Infinity: it must read all. */
  next(): Promise<number>
  /** Call at the end of each run. `is_complete`: it left no event that it had to read. */
  ran(is_complete: boolean, took_ms: number): void
}

/** `lostSince`: see `DatabaseWatch`. */
export function createOutboxReach(sql: Sql, lostSince: () => number | null): OutboxReach {
  /** All events before are sequenced, and no open transaction can have created one. */
  let since_s = -Infinity
  /** What becomes `since_s` if the present run is complete. */
  let next_since_s: number | undefined
  let is_full = true
  let earlier: OpenWrites | undefined
  let due_at = -Infinity
  let full_due_at = -Infinity
  let lost_since = lostSince()

  /** After a switch of the database, events that were sequenced may wait again. */
  function forgetAtSwitch(): void {
    if (lostSince() === lost_since) return
    lost_since = lostSince()
    since_s = due_at = full_due_at = -Infinity
    earlier = undefined
  }

  return {
    async next() {
      forgetAtSwitch()
      next_since_s = undefined
      if (performance.now() < due_at) return since_s
      const open = await findOpenWrites(sql)
      due_at = performance.now() + RETRY_MS
      earlier ??= open
      // A transaction locks the table before it creates an event. If all that had the lock at the earlier moment have
      // ended, the others create events after it.
      if (earlier === open || earlier.writers.some((writer) => open.writers.includes(writer))) return since_s
      next_since_s = earlier.at_s - MARGIN_S
      earlier = open
      is_full = since_s === -Infinity || performance.now() >= full_due_at
      return is_full ? -Infinity : since_s
    },
    ran(is_complete, took_ms) {
      if (next_since_s === undefined) return
      const now = performance.now()
      due_at = now + (is_complete ? INTERVAL_MS : RETRY_MS)
      if (is_full) full_due_at = now + Math.max(FULL_INTERVAL_MS, FULL_OF_RUN * took_ms)
      if (is_complete) since_s = next_since_s
    },
  }
}
