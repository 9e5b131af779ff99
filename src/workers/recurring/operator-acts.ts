// Carries out what operators ask for in the dashboard; forgets acts after 90 days, and which processes there were.
import { carryOutNextStep } from '#domain/operator-acts/carry-out.ts'
import { forgetOldActs } from '#domain/operator-acts/act.ts'
import { forgetGoneProcesses } from '#domain/operations/processes.ts'
import { every, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** Looking for an act reads an index that is empty as a rule: no wake-up is needed. */
const LOOK_MS = 500
const FORGET_EVERY_MS = 3600_000
/** Each with its items, of which there may be many. */
const FORGOTTEN_AT_ONCE = 1

/** Each worker does; a step is one transaction, and no two workers are at the same act. */
export function carryOutActs({ sql, log }: WorkerContext): Loop {
  let closing = false
  const closed = () => closing
  const loops = [
    every(
      log,
      'carrying out acts of operators',
      () => LOOK_MS,
      async () => {
        while (!closed() && (await carryOutNextStep(sql)));
      },
    ),
    every(
      log,
      'old acts of operators and processes that are gone',
      () => FORGET_EVERY_MS,
      async () => {
        await forgetGoneProcesses(sql)
        while (!closed() && (await forgetOldActs(sql, FORGOTTEN_AT_ONCE)) === FORGOTTEN_AT_ONCE);
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
