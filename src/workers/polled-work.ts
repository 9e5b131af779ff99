// Polls for rare work: one statement for the loops of several kinds.
import type { OperatorWork, PolledWork } from '#domain/polled-work.ts'

/** The interval at which the loop of a kind asks while it has no work. An act of an operator begins within a second. */
export const POLL_INTERVAL_MS = 500
/** How long an answer is shared by the loops: nearly an interval, so that loops that are out of step share it too. */
const SHARED_MS = 400

/** Returns whether there is work of this kind, or was `SHARED_MS` ago. */
type Poll<Found> = (kind: keyof Found) => Promise<boolean>
export type HasWork = Poll<PolledWork>
export type HasOperatorWork = Poll<OperatorWork>

export function pollWork<Found extends { [Kind in keyof Found]: boolean }>(
  find: () => Promise<Found>,
): Poll<Found> {
  let asked_at = -Infinity
  let found: Promise<Found>
  return async (kind) => {
    if (performance.now() - asked_at >= SHARED_MS) {
      asked_at = performance.now()
      found = find()
    }
    return (await found)[kind]
  }
}
