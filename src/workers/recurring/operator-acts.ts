// Carries out the acts that operators request in the dashboard. Deletes acts after 90 days, and the rows of stopped
// processes.
import { carryOutNextStep } from '#domain/operator-acts/carry-out.ts'
import { deleteOldActs } from '#domain/operator-acts/act.ts'
import { deleteEndedProcesses } from '#domain/operations/processes.ts'
import { repeatWhileCurrent, together, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'
import { POLL_INTERVAL_MS, type HasOperatorWork } from '../polled-work.ts'

const DELETE_INTERVAL_MS = 3600_000
/** Old acts are deleted one at a time, because an act may have many items. */
const DELETE_BATCH_SIZE = 1

/** Runs in each worker. A step is one transaction, and no two workers process the same act. */
export function startOperatorActs(
  { sql, log, database }: WorkerContext,
  hasOperatorWork: HasOperatorWork,
): Loop {
  return together([
    repeatWhileCurrent(
      { log, database },
      'acts of operators',
      () => POLL_INTERVAL_MS,
      async (mustEnd) => {
        if (!(await hasOperatorWork('acts'))) return
        while (!mustEnd() && (await carryOutNextStep(sql)));
      },
    ),
    repeatWhileCurrent(
      { log, database },
      'deleting old acts and stopped processes',
      () => DELETE_INTERVAL_MS,
      async (mustEnd) => {
        await deleteEndedProcesses(sql)
        while (!mustEnd() && (await deleteOldActs(sql, DELETE_BATCH_SIZE)) === DELETE_BATCH_SIZE);
      },
    ),
  ])
}
