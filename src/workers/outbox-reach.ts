// How far back the sequencer reads the outbox. While a session holds an old snapshot, the index of the outbox keeps the
// entries of deleted rows, so most runs read only the recent rows. No event may be left behind: later events of its
// resource would get their sequences before it. An event can become visible long after it was created, because its
// transaction took long, or waited in its commit for a standby.
import type { Sql } from '#core/db.ts'
import { ALL_ROWS, findOpenWrites, type OpenWrites, type RecentRows } from '#domain/sequencing.ts'

/**
 * A transaction locks the table before it creates an event, so events of transactions that began to write after a
 * moment were created after it, by the same clock. This margin is for a clock that is set back a little.
 */
const MARGIN_S = 5
/** The maximum time for which one look at the open transactions is compared with later ones. */
const MAX_WRITE_S = 20
/** The interval of moments at which the rows that are recent are determined again. */
const INTERVAL_MS = 5_000
/** The interval of attempts, while a transaction stays open or a run leaves events. */
const RETRY_MS = 1_000
/** The minimum interval of runs that read all. They find what a clock that was set back further left. */
const FULL_INTERVAL_MS = 30_000
/** The same in times of the last such run. */
const FULL_OF_RUN = 30

export type OutboxReach = {
  /** The rows that the next run must read. */
  next(): Promise<RecentRows>
  /** Call at the end of each run. `is_complete`: it left no event that it had to read. */
  ran(is_complete: boolean, took_ms: number): void
}

export function createOutboxReach(sql: Sql): OutboxReach {
  /** All events before are sequenced, and no open transaction can have created one. */
  let recent = ALL_ROWS
  /** What becomes `recent` if the present run is complete. */
  let next_recent: RecentRows | undefined
  let is_full = true
  let earlier: OpenWrites | undefined
  let due_at = -Infinity
  let full_due_at = -Infinity

  /** The rows since an earlier look at the open transactions, if all that were open then have ended. */
  function findRecent(open: OpenWrites): RecentRows | undefined {
    const is_comparable = earlier?.server === open.server
    const age_s = is_comparable ? open.at_s - earlier!.at_s : NaN
    const is_known = age_s >= 0 && age_s <= MAX_WRITE_S
    const { writers, at_s } = is_known ? earlier! : open
    const known = new Set(writers)
    const has_ended = is_known && !open.writers.some((writer) => known.has(writer))
    if (has_ended || !is_known) earlier = open
    return has_ended ? { since_s: at_s - MARGIN_S, seen_at_s: open.at_s, server: open.server } : undefined
  }

  return {
    async next() {
      next_recent = undefined
      if (performance.now() < due_at) return recent
      const open = await findOpenWrites(sql)
      due_at = performance.now() + RETRY_MS
      next_recent = findRecent(open)
      if (next_recent === undefined) return recent
      is_full = recent.since_s === -Infinity || performance.now() >= full_due_at
      return is_full ? ALL_ROWS : recent
    },
    ran(is_complete, took_ms) {
      if (next_recent === undefined) return
      const now = performance.now()
      due_at = now + (is_complete ? INTERVAL_MS : RETRY_MS)
      if (is_full) full_due_at = now + Math.max(FULL_INTERVAL_MS, FULL_OF_RUN * took_ms)
      if (is_complete) recent = next_recent
    },
  }
}
