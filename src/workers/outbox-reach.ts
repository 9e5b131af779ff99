// How far back the sequencer reads the outbox. While a session holds an old snapshot, the index of the outbox keeps the
// entries of deleted rows, so most runs read only the recent rows. No event may be left behind: later events of its
// resource would get their sequences before it. An event can become visible long after it was created, because its
// transaction took long, or waited in its commit for a standby.
import type { Sql } from '#core/db.ts'
import { findOpenWrites, type OpenWrites } from '#domain/sequencing.ts'

/** How far back the recent rows reach from the moment at which all earlier ones were known to be sequenced. */
const RECENT_S = 60
/**
 * The age of the oldest transaction that may write events at that moment. A transaction locks the table before it
 * creates an event, so the difference to `RECENT_S` is a margin.
 */
const MAX_WRITE_S = 20
/** The interval of moments at which the rows that are recent are determined again. */
const INTERVAL_MS = 30_000
/** The interval of attempts, while a transaction stays open or a run leaves events. */
const RETRY_MS = 1_000
/** The interval of runs that read all, in times of the last one. They find what a clock that was set back left. */
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

  /** Whether each transaction that writes events began to do so in the last `MAX_WRITE_S`. */
  function areRecent({ writers, at_s }: OpenWrites): boolean {
    const age_s = earlier === undefined ? NaN : at_s - earlier.at_s
    const is_known = age_s >= 0 && age_s <= MAX_WRITE_S
    const known = new Set(earlier?.writers)
    if (!is_known) earlier = { writers, at_s }
    return is_known && !writers.some((writer) => known.has(writer))
  }

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
      if (!areRecent(open)) return since_s
      next_since_s = open.at_s - RECENT_S
      is_full = since_s === -Infinity || performance.now() >= full_due_at
      return is_full ? -Infinity : since_s
    },
    ran(is_complete, took_ms) {
      if (next_since_s === undefined) return
      const now = performance.now()
      due_at = now + (is_complete ? INTERVAL_MS : RETRY_MS)
      if (is_full) full_due_at = now + Math.max(INTERVAL_MS, FULL_OF_RUN * took_ms)
      if (is_complete) since_s = next_since_s
    },
  }
}
