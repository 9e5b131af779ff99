// Whether what clients saw can be explained: for each payment some order of all its calls, and if not, the fewest that cannot.
import type { Problem } from '#test/invariants.ts'
import type { Call, Histories } from './call.ts'
import { paymentMachine, viewPayment, type Payment, type State } from './payment.ts'
import { explain, type Explanation } from './search.ts'
import { changesOf, spanOf } from './spans.ts'
import { historyLines } from './reported.ts'

export const UNEXPLAINED = 'no order of the calls explains what clients saw'
const TOO_MANY_ORDERS = 'a history has too many orders to be judged'
/** Of more, that they are there is all that is told. */
const MAX_DETAILED = 20

export type Checked = { problems: Problem[]; payments: number; calls: number; took_ms: number }

/** Checks the calls of each payment; those of one are independent of all others. */
export function checkHistories(histories: Histories): Checked {
  const began = performance.now()
  const problems: Problem[] = []
  let calls = 0
  for (const [payment, history] of histories) {
    calls += history.length
    const explained = explainCalls(history)
    if (explained.found) continue
    const id = { payment }
    if (explained.gave_up) problems.push({ problem: TOO_MANY_ORDERS, ...id, calls: history.length })
    else if (problems.length >= MAX_DETAILED) problems.push({ problem: UNEXPLAINED, ...id })
    else problems.push({ problem: UNEXPLAINED, ...id, ...contradictionOf(history) })
  }
  return { problems, payments: histories.size, calls, took_ms: performance.now() - began }
}

/** Whether some order of these calls, all of one payment, explains their answers. */
export function explainCalls(calls: Call[]): Explanation<State> {
  const payment = paymentOf(calls)
  return explain(spansOf(payment, calls), paymentMachine(payment))
}

/** The fewest calls that no order explains, in lines, and how the payment may have stood before those that do not fit. */
function contradictionOf(calls: Call[]): { history: string[]; before: string[] } {
  const fewest = minimalContradictionOf(calls)
  const payment = paymentOf(fewest)
  const explained = explainCalls(fewest)
  const stuck = explained.found ? [] : explained.stuck
  const before = new Set(stuck.map((state) => describeState(payment, state)))
  const timed = fewest.toSorted((a, b) => a.start - b.start)
  return { history: historyLines(timed), before: [...before] }
}

/**
 * Leaves out what is not needed for the contradiction: reads, and the answers of changes. A change itself stays: without
 * it nothing would explain what others saw of it.
 */
function minimalContradictionOf(calls: Call[]): Call[] {
  const contradicts = (some: Call[]) => {
    const explained = explainCalls(some)
    return !explained.found && !explained.gave_up
  }
  let fewest = calls
  for (const call of calls.toReversed()) {
    if (call.answer === null) continue
    const without = fewest.filter((each) => each !== call)
    const fewer = isChange(call) ? [...without, { ...call, answer: null }] : without
    if (contradicts(fewer)) fewest = fewer
  }
  const last = Math.max(...fewest.flatMap(({ answer }) => answer?.end ?? []))
  return fewest.filter(({ start }) => start <= last)
}

function isChange({ operation: { op } }: Call): boolean {
  return op !== 'read' && op !== 'list' && op !== 'read refund' && op !== 'list refunds'
}

function paymentOf(calls: Call[]): Payment {
  const changes = changesOf(calls)
  const created = changes.find(({ op }) => op === 'create')
  const amount_minor = created?.op === 'create' ? (created.amount_minor ?? 0) : 0
  return { changes, amount_minor }
}

/** Those of an act that nobody answered are one: whichever came through first, the others are the same. */
function spansOf(payment: Payment, calls: Call[]) {
  const operation = new Set<string>()
  return calls
    .toSorted((a, b) => a.start - b.start)
    .filter(({ operation: { op, ...rest }, answer }) => {
      const name = `${op} ${'key' in rest ? rest.key : ''}`
      if (answer !== null || !('key' in rest) || !('amount_minor' in rest)) return true
      return operation.has(name) ? false : operation.add(name)
    })
    .flatMap((call) => spanOf(payment, call) ?? [])
}

function describeState(payment: Payment, state: State): string {
  const { captured, refunded } = viewPayment(payment, state)
  const amounts = state.status === 'captured' ? ` ${captured}, refunded ${refunded}` : ''
  return `${state.status}${state.voided ? ', to be canceled' : ''}${amounts}`
}
