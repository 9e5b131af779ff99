// Carries out proposals that a second operator has confirmed.
import { carryOutNextProposal } from '#domain/proposals/carry-out.ts'
import { repeatWhileCurrent, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** Proposals are polled without a wake-up, because the query reads an index that is usually empty. */
const POLL_INTERVAL_MS = 500

/** Runs in each worker. A step is one transaction, and no two workers process the same proposal. */
export function startProposals({ sql, log, database }: WorkerContext): Loop {
  return repeatWhileCurrent(
    { log, database },
    'proposals of operators',
    () => POLL_INTERVAL_MS,
    async (mustEnd) => {
      while (!mustEnd() && (await carryOutNextProposal(sql)));
    },
  )
}
