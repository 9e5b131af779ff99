// Polls for rare work: one statement for the loops of several kinds.
import type { OperatorWork, PolledWork } from '#domain/polled-work.ts'
import { createScanPause } from './scan-reach.ts'

/** The interval at which the loop of a kind asks while it has no work. An act of an operator begins within a second. */
export const POLL_INTERVAL_MS = 500
/** How long an answer is shared by the loops: nearly an interval, so that loops that are out of step share it too. */
const SHARED_MS = 400
/** An answer that repeatedly takes long is shared for longer, at most for this. */
const MAX_SHARED_MS = 10_000

/** Returns whether there is work of this kind, or was at the last question. Rejects if the question failed. */
type Poll<Found> = (kind: keyof Found) => Promise<boolean>
export type HasWork = Poll<PolledWork>
export type HasOperatorWork = Poll<OperatorWork>

export function pollWork<Found extends { [Kind in keyof Found]: boolean }>(
  find: () => Promise<Found>,
  max_shared_ms = MAX_SHARED_MS,
): Poll<Found> {
  const pauseAfter = createScanPause(max_shared_ms)
  let due_at = -Infinity
  let found: Promise<Found>

  async function ask(): Promise<Found> {
    const asked_at = performance.now()
    let pause_ms = 0
    due_at = Infinity
    try {
      const answer = await find()
      pause_ms = pauseAfter(performance.now() - asked_at)
      return answer
    } finally {
      due_at = asked_at + Math.max(SHARED_MS, pause_ms)
    }
  }

  return async (kind) => {
    if (performance.now() >= due_at) found = ask()
    return (await found)[kind]
  }
}
