// Carries out proposals that a second operator has confirmed.
import { carryOutNextProposal } from '#domain/proposals/carry-out.ts'
import { repeatWhileCurrent, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'
import { POLL_INTERVAL_MS, type HasOperatorWork } from '../polled-work.ts'

/** Runs in each worker. A step is one transaction, and no two workers process the same proposal. */
export function startProposals(
  { sql, log, database }: WorkerContext,
  hasOperatorWork: HasOperatorWork,
): Loop {
  return repeatWhileCurrent(
    { log, database },
    'proposals of operators',
    () => POLL_INTERVAL_MS,
    async (mustEnd) => {
      if (!(await hasOperatorWork('proposals'))) return
      while (!mustEnd() && (await carryOutNextProposal(sql)));
    },
  )
}
