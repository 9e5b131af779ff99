// Polls for rare work: one statement for the loops of all kinds.
import type { Sql } from '#core/db.ts'
import { findPolledWork, type PolledWork } from '#domain/polled-work.ts'

/** The interval at which the loop of a kind asks while it has no work. An act of an operator begins within a second. */
export const POLL_INTERVAL_MS = 500
/** How long an answer is shared by the loops: nearly an interval, so that loops that are out of step share it too. */
const SHARED_MS = 400

/** Returns whether there is work of this kind, or was `SHARED_MS` ago. */
export type HasWork = (kind: keyof PolledWork) => Promise<boolean>

export function pollWork(sql: Sql): HasWork {
  let asked_at = -Infinity
  let found: Promise<PolledWork>
  return async (kind) => {
    if (performance.now() - asked_at >= SHARED_MS) {
      asked_at = performance.now()
      found = findPolledWork(sql)
    }
    return (await found)[kind]
  }
}
