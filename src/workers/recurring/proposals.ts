// Carries out what one operator proposed and another confirmed.
import { carryOutNextProposal } from '#domain/proposals/carry-out.ts'
import { repeat, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** Looking for a proposal reads an index that is empty as a rule: no wake-up is needed. */
const POLL_INTERVAL_MS = 500

/** Each worker does; a step is one transaction, and no two workers are at the same proposal. */
export function startProposals({ sql, log }: WorkerContext): Loop {
  let closing = false
  const closed = () => closing
  const loop = repeat(
    log,
    'carrying out proposals of operators',
    () => POLL_INTERVAL_MS,
    async () => {
      while (!closed() && (await carryOutNextProposal(sql)));
    },
  )
  return {
    async close() {
      closing = true
      await loop.close()
    },
  }
}
