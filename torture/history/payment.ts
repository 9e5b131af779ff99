// A payment and its refunds as a state machine, as described in docs/guides/payments.md and refunds.md.
import type { ExternalChange, PaymentView, Write } from './call.ts'
import type { Machine } from './search.ts'

/** A requested change. The state refers to it by its index. */
export type Change = Exclude<Write | ExternalChange, { op: 'external refund settlement' }>

/**
 * The state of each change by its index: `-` not accepted, `a` in progress, `d` done, `f` failed. `d` of a refund means
 * that it has succeeded.
 */
type Marks = string

export type State = {
  status: 'none' | 'pending' | 'authorized' | 'capturing' | 'captured' | 'canceling' | 'canceled' | 'failed'
  /** The payment is pending, and a cancellation waits for its authorization. */
  voided: boolean
  /** The last capture or cancellation has failed. */
  failed: boolean
  captured: number
  marks: Marks
}

export type Payment = {
  changes: Change[]
  amount_minor: number
}

export function paymentMachine(payment: Payment): Machine<State> {
  return {
    initial: {
      status: 'none',
      voided: false,
      failed: false,
      captured: 0,
      marks: '-'.repeat(payment.changes.length),
    },
    keyOf: ({ status, voided, failed, captured, marks }) => `${status}${voided}${failed}${captured}${marks}`,
    spontaneousSteps: (state) => spontaneousSteps(payment, state),
  }
}

/** The states that may follow at any time, because the processor or a worker finishes a change in progress. */
function spontaneousSteps({ changes, amount_minor }: Payment, state: State): State[] {
  const { status, marks } = state
  const after: State[] = []
  if (status === 'pending') {
    const created = withFinished(changes, marks, 'create', 'd')
    after.push({ ...state, status: state.voided ? 'canceling' : 'authorized', voided: false, marks: created })
    after.push({
      ...state,
      status: 'failed',
      voided: false,
      marks: withFinished(changes, marks, 'create', 'f'),
    })
  }
  if (status === 'capturing') {
    const operation = changes.find(
      (change, nth): change is Write => change.op === 'capture' && marks[nth] === 'a',
    )
    after.push(withCaptured(changes, state, operation?.amount_minor ?? amount_minor))
    after.push({
      ...state,
      status: 'authorized',
      failed: true,
      marks: withFinished(changes, marks, 'capture', 'f'),
    })
  }
  if (status === 'canceling') {
    after.push(withCanceled(changes, state))
    after.push({
      ...state,
      status: 'authorized',
      failed: true,
      marks: withFinished(changes, marks, 'cancel', 'f'),
    })
  }
  for (const [nth, change] of changes.entries())
    if (isRefund(change) && marks[nth] === 'a')
      after.push({ ...state, marks: marked(marks, nth, 'd') }, { ...state, marks: marked(marks, nth, 'f') })
  return after
}

/** The state after the change with this index was accepted; null if it is not possible in this state. */
export function afterAcceptance(payment: Payment, state: State, nth: number): State | null {
  const change = payment.changes[nth]!
  const { status, marks } = state
  if (marks[nth] !== '-') return null
  const under_way = { ...state, failed: false, marks: marked(marks, nth, 'a') }
  switch (change.op) {
    case 'create':
      return status === 'none' ? { ...under_way, status: 'pending' } : null
    case 'capture':
      return status === 'authorized' && (change.amount_minor ?? 0) <= payment.amount_minor
        ? { ...under_way, status: 'capturing' }
        : null
    case 'cancel':
      if (status === 'pending') return { ...under_way, voided: true }
      return status === 'authorized' || status === 'canceling' ? { ...under_way, status: 'canceling' } : null
    case 'refund':
    case 'external refund':
      return status === 'captured' && reserved(payment, state) + change.amount_minor! <= state.captured
        ? under_way
        : null
    case 'external capture':
      return isOnHold(state) || status === 'pending'
        ? withCaptured(payment.changes, { ...state, marks: marked(marks, nth, 'd') }, change.amount_minor)
        : null
    case 'external cancel':
  }
  return isOnHold(state) || status === 'pending'
    ? withCanceled(payment.changes, { ...state, marks: marked(marks, nth, 'd') })
    : null
}

/** The state after the processor has settled a refund; null if nothing changes. */
export function afterSettlement(state: State, nth: number, status: 'succeeded' | 'failed'): State | null {
  const mark = state.marks[nth]!
  const to = status === 'succeeded' ? 'd' : 'f'
  return mark === 'a' || (mark === 'd' && to === 'f')
    ? { ...state, marks: marked(state.marks, nth, to) }
    : null
}

/** The payment as a client would see it. */
export function viewPayment(payment: Payment, state: State): PaymentView {
  const { status, captured, failed } = state
  const on_hold = isOnHold(state)
  const refunded = sum(payment, state, 'd')
  return { status, capturable: on_hold ? payment.amount_minor : 0, captured, refunded, failed }
}

function isOnHold({ status }: State): boolean {
  return status === 'authorized' || status === 'capturing' || status === 'canceling'
}

export function isRefund(
  change: Change,
): change is Change & { op: 'refund' | 'external refund'; amount_minor: number } {
  return change.op === 'refund' || change.op === 'external refund'
}

function reserved(payment: Payment, state: State): number {
  return sum(payment, state, 'a') + sum(payment, state, 'd')
}

function sum({ changes }: Payment, { marks }: State, mark: string): number {
  return changes.reduce(
    (total, change, nth) => total + (isRefund(change) && marks[nth] === mark ? change.amount_minor : 0),
    0,
  )
}

// The state after the payment was captured: captures in progress succeed, and cancellations in progress fail.
function withCaptured(changes: Change[], state: State, captured: number): State {
  const marks = withFinished(changes, withFinished(changes, state.marks, 'capture', 'd'), 'cancel', 'f')
  return { ...state, status: 'captured', voided: false, failed: false, captured, marks }
}

function withCanceled(changes: Change[], state: State): State {
  const marks = withFinished(changes, withFinished(changes, state.marks, 'capture', 'f'), 'cancel', 'd')
  return { ...state, status: 'canceled', voided: false, failed: false, marks }
}

/** Marks all changes of a kind that are in progress. */
function withFinished(changes: Change[], marks: Marks, op: Change['op'], to: 'd' | 'f'): Marks {
  return Array.from(marks, (mark, nth) => (mark === 'a' && changes[nth]!.op === op ? to : mark)).join('')
}

function marked(marks: Marks, nth: number, to: string): Marks {
  return `${marks.slice(0, nth)}${to}${marks.slice(nth + 1)}`
}
