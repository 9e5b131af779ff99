// Polls for rare work: one statement for the loops of several kinds.
import type { OperatorWork, PolledWork } from '#domain/polled-work.ts'
import { PAUSE_OF_SCAN } from './scan-reach.ts'

/** The interval at which the loop of a kind asks while it has no work. An act of an operator begins within a second. */
export const POLL_INTERVAL_MS = 500
/**
 * How long an answer is shared by the loops: nearly an interval, so that loops that are out of step share it too. A
 * slow answer is shared for longer.
 */
const SHARED_MS = 400

/** Returns whether there is work of this kind, or was at the last question. */
type Poll<Found> = (kind: keyof Found) => Promise<boolean>
export type HasWork = Poll<PolledWork>
export type HasOperatorWork = Poll<OperatorWork>

export function pollWork<Found extends { [Kind in keyof Found]: boolean }>(
  find: () => Promise<Found>,
): Poll<Found> {
  let asked_at = -Infinity
  let found: Promise<Found>
  let took_ms = 0

  async function ask(): Promise<Found> {
    try {
      return await find()
    } finally {
      took_ms = performance.now() - asked_at
    }
  }

  return async (kind) => {
    if (performance.now() - asked_at >= Math.max(SHARED_MS, PAUSE_OF_SCAN * took_ms)) {
      asked_at = performance.now()
      found = ask()
    }
    return (await found)[kind]
  }
}
