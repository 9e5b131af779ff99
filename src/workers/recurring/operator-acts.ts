// Carries out what operators ask for in the dashboard; forgets acts after 90 days, and which processes there were.
import { carryOutNextStep } from '#domain/operator-acts/carry-out.ts'
import { deleteOldActs } from '#domain/operator-acts/act.ts'
import { deleteEndedProcesses } from '#domain/operations/processes.ts'
import { repeat, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** Looking for an act reads an index that is empty as a rule: no wake-up is needed. */
const POLL_INTERVAL_MS = 500
const DELETE_INTERVAL_MS = 3600_000
/** Each with its items, of which there may be many. */
const DELETE_BATCH_SIZE = 1

/** Each worker does; a step is one transaction, and no two workers are at the same act. */
export function startOperatorActs({ sql, log }: WorkerContext): Loop {
  let closing = false
  const closed = () => closing
  const loops = [
    repeat(
      log,
      'carrying out acts of operators',
      () => POLL_INTERVAL_MS,
      async () => {
        while (!closed() && (await carryOutNextStep(sql)));
      },
    ),
    repeat(
      log,
      'old acts of operators and processes that are gone',
      () => DELETE_INTERVAL_MS,
      async () => {
        await deleteEndedProcesses(sql)
        while (!closed() && (await deleteOldActs(sql, DELETE_BATCH_SIZE)) === DELETE_BATCH_SIZE);
      },
    ),
  ]
  return {
    async close() {
      closing = true
      await Promise.all(loops.map((loop) => loop.close()))
    },
  }
}
