// The steps of an operator in the model of switches.
import type { Step } from './explore.ts'
import type { Scenario } from './rules.ts'
import { finished, MOMENTS, withRow, type Row, type State } from './state.ts'

/** What an operator may do: retry parked jobs, decide about emails, release what waits since a switch. */
export function operatorSteps(scenario: Scenario, state: State): Step<State>[] {
  const { db, rewinds } = state
  if (db.switch !== rewinds) return []
  const steps: Step<State>[] = []
  const put = (label: string, request: number, row: Row, change: Partial<State> = {}) =>
    steps.push({
      label: `an operator ${label} ${scenario.kinds[request]} ${request + 1}`,
      next: { ...state, ...change, db: withRow(db, request, row) },
    })
  for (const [i, row] of db.rows.entries()) {
    if (row === null) continue
    if (row.job === 'parked') put('retries', i, { ...row, job: 'ready' })
    if (scenario.kinds[i] !== 'email' || !row.unknown) continue
    put('reports as sent', i, finished('succeeded'))
    if (!state.messages_released)
      put('sends again', i, { ...row, unknown: false, in_doubt: false }, { messages_released: true })
  }
  if (db.hold !== 'restore') return steps
  for (const messages of ['send', 'discard'] as const) {
    if (messages === 'discard' && !db.rows.some((row) => row?.held)) continue
    const rows = db.rows.map((row) =>
      row?.held ? (messages === 'send' ? { ...row, held: false } : finished('failed')) : row,
    )
    steps.push({
      label: `an operator releases: messages ${messages}`,
      next: {
        ...state,
        db: { ...db, newest: MOMENTS, hold: null, rows },
        messages_released: state.messages_released || messages === 'send',
      },
    })
  }
  return steps
}
