// How far back the sequencer reads the outbox. While a session holds an old snapshot, the index of the outbox keeps the
// entries of deleted rows, so most runs read only the recent rows. No event may be left behind: later events of its
// resource would get their sequences before it. An event can become visible long after it was created, because its
// transaction took long, or waited in its commit for a standby.
import type { Sql } from '#core/db.ts'
import { findOpenWrites, type OpenWrites } from '#domain/sequencing.ts'

/** How far back the recent rows reach from the start of the run that read all. */
const RECENT_S = 60
/**
 * The oldest transaction that may be open at the start of that run. The difference to `RECENT_S` is more than the time
 * between the creation of an event and the first write of its transaction: see `settings.ts`.
 */
const MAX_WRITE_S = 20
/** The interval of runs that read all: `of_run` times as long as the last one took, and at least `min_ms`. */
const INTERVAL = { min_ms: 30_000, of_run: 30 }
/** The interval of attempts, while a transaction is open for longer or a run leaves events. */
const RETRY_MS = 1_000

export type OutboxReach = {
  /** Since when the next run must read the outbox, in Unix seconds. -Infinity: it must read all. */
  next(): Promise<number>
  /** Call at the end of each run. `is_complete`: it left no event that it had to read. */
  ran(is_complete: boolean, took_ms: number): void
}

export function createOutboxReach(sql: Sql): OutboxReach {
  /** All events before are sequenced, and no open transaction can have created one. */
  let since_s = -Infinity
  /** What becomes `since_s` if the present run is complete. */
  let next_since_s: number | undefined
  let earlier: OpenWrites | undefined
  let due_at = -Infinity

  /** Whether each open transaction began in the last `MAX_WRITE_S`. */
  function areRecent({ writers, at_s }: OpenWrites): boolean {
    const age_s = earlier === undefined ? NaN : at_s - earlier.at_s
    const is_known = age_s >= 0 && age_s <= MAX_WRITE_S
    const known = new Set(earlier?.writers)
    if (!is_known) earlier = { writers, at_s }
    return is_known && !writers.some((writer) => known.has(writer))
  }

  return {
    async next() {
      next_since_s = undefined
      if (performance.now() < due_at) return since_s
      const open = await findOpenWrites(sql)
      due_at = performance.now() + RETRY_MS
      if (!areRecent(open)) return since_s
      next_since_s = open.at_s - RECENT_S
      return -Infinity
    },
    ran(is_complete, took_ms) {
      if (next_since_s === undefined) return
      const min_ms = is_complete ? INTERVAL.min_ms : RETRY_MS
      due_at = performance.now() + Math.max(min_ms, INTERVAL.of_run * took_ms)
      if (is_complete) since_s = next_since_s
    },
  }
}
