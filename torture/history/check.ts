// Checks that some serial order of the calls about each payment explains their answers. If none does, finds the
// smallest set of calls that contradict each other.
import type { Problem } from '#test/invariants.ts'
import type { Call, Histories } from './call.ts'
import { paymentMachine, viewPayment, type Payment, type State } from './payment.ts'
import { explain, type Explanation } from './search.ts'
import { changesOf, spanOf } from './spans.ts'
import { historyLines } from './lines.ts'

export const UNEXPLAINED = 'no order of the calls explains what clients saw'
const TOO_MANY_ORDERS = 'a history has too many orders to search'
/** Maximum number of contradictions that are reported with their calls. */
const MAX_DETAILED = 20

export type Checked = { problems: Problem[]; payments: number; calls: number; took_ms: number }

/** Checks each payment by itself: payments are independent. */
export function checkHistories(histories: Histories): Checked {
  const started_at = performance.now()
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
  return { problems, payments: histories.size, calls, took_ms: performance.now() - started_at }
}

/** Finds a serial order of these calls, all about one payment, that explains their answers. */
export function explainCalls(calls: Call[]): Explanation<State> {
  const payment = paymentOf(calls)
  return explain(spansOf(payment, calls), paymentMachine(payment))
}

/**
 * The smallest contradicting set of calls as lines, and the possible states before the call that cannot be explained.
 */
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
 * Removes reads, and the answers of changes, that the contradiction does not need. A change itself stays, because it
 * may explain other answers.
 */
function minimalContradictionOf(calls: Call[]): Call[] {
  const contradicts = (subset: Call[]) => {
    const explained = explainCalls(subset)
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

/** Requests with the same key and without an answer count once: only the first can have an effect. */
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
