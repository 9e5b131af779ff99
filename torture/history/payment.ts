// A payment with its refunds as a state machine, as docs/guides/payments.md and refunds.md tell it.
import type { Outside, Shown, Write } from './call.ts'
import type { Machine } from './search.ts'

/** A change that somebody asked for: what it is known by in the state is its place in a list. */
export type Act = Exclude<Write | Outside, { op: 'refund settles outside' }>

/**
 * How each act stands, by its place: `-` not accepted, `a` under way, `d` done, `f` failed. Of a refund `d` says that it
 * has succeeded.
 */
type Marks = string

export type State = {
  status: 'none' | 'pending' | 'authorized' | 'capturing' | 'captured' | 'canceling' | 'canceled' | 'failed'
  /** It is pending, and a cancellation waits for its authorization. */
  voided: boolean
  /** The last capture or cancellation failed. */
  failed: boolean
  captured: number
  marks: Marks
}

export type Payment = {
  acts: Act[]
  amount_minor: number
}

export function paymentMachine(payment: Payment): Machine<State> {
  return {
    initial: {
      status: 'none',
      voided: false,
      failed: false,
      captured: 0,
      marks: '-'.repeat(payment.acts.length),
    },
    keyOf: ({ status, voided, failed, captured, marks }) => `${status}${voided}${failed}${captured}${marks}`,
    alone: (state) => alone(payment, state),
  }
}

/** What the processor and the workers do, some time or other. */
function alone({ acts, amount_minor }: Payment, state: State): State[] {
  const { status, marks } = state
  const after: State[] = []
  if (status === 'pending') {
    const created = ended(acts, marks, 'create', 'd')
    after.push({ ...state, status: state.voided ? 'canceling' : 'authorized', voided: false, marks: created })
    after.push({ ...state, status: 'failed', voided: false, marks: ended(acts, marks, 'create', 'f') })
  }
  if (status === 'capturing') {
    const asked = acts.find((act, nth): act is Write => act.op === 'capture' && marks[nth] === 'a')
    after.push(capturedAs(acts, state, asked?.amount_minor ?? amount_minor))
    after.push({ ...state, status: 'authorized', failed: true, marks: ended(acts, marks, 'capture', 'f') })
  }
  if (status === 'canceling') {
    after.push(canceled(acts, state))
    after.push({ ...state, status: 'authorized', failed: true, marks: ended(acts, marks, 'cancel', 'f') })
  }
  for (const [nth, act] of acts.entries())
    if (isRefund(act) && marks[nth] === 'a')
      after.push({ ...state, marks: marked(marks, nth, 'd') }, { ...state, marks: marked(marks, nth, 'f') })
  return after
}

/** The state after a request was accepted; null where its guard refuses. */
export function accepted(payment: Payment, state: State, nth: number): State | null {
  const act = payment.acts[nth]!
  const { status, marks } = state
  if (marks[nth] !== '-') return null
  const under_way = { ...state, failed: false, marks: marked(marks, nth, 'a') }
  switch (act.op) {
    case 'create':
      return status === 'none' ? { ...under_way, status: 'pending' } : null
    case 'capture':
      return status === 'authorized' && (act.amount_minor ?? 0) <= payment.amount_minor
        ? { ...under_way, status: 'capturing' }
        : null
    case 'cancel':
      if (status === 'pending') return { ...under_way, voided: true }
      return status === 'authorized' || status === 'canceling' ? { ...under_way, status: 'canceling' } : null
    case 'refund':
    case 'refund outside':
      return status === 'captured' && reserved(payment, state) + act.amount_minor! <= state.captured
        ? under_way
        : null
    case 'capture outside':
      return isHeld(state) || status === 'pending'
        ? capturedAs(payment.acts, { ...state, marks: marked(marks, nth, 'd') }, act.amount_minor)
        : null
    case 'cancel outside':
  }
  return isHeld(state) || status === 'pending'
    ? canceled(payment.acts, { ...state, marks: marked(marks, nth, 'd') })
    : null
}

/** The state after the processor settled a refund that was asked for here; null where that changes nothing. */
export function settled(state: State, nth: number, status: 'succeeded' | 'failed'): State | null {
  const mark = state.marks[nth]!
  const to = status === 'succeeded' ? 'd' : 'f'
  return mark === 'a' || (mark === 'd' && to === 'f')
    ? { ...state, marks: marked(state.marks, nth, to) }
    : null
}

/** As a client would be shown it. */
export function shownIn(payment: Payment, state: State): Shown {
  const { status, captured, failed } = state
  const held = isHeld(state)
  const refunded = sum(payment, state, 'd')
  return { status, capturable: held ? payment.amount_minor : 0, captured, refunded, failed }
}

function isHeld({ status }: State): boolean {
  return status === 'authorized' || status === 'capturing' || status === 'canceling'
}

export function isRefund(act: Act): act is Act & { op: 'refund' | 'refund outside'; amount_minor: number } {
  return act.op === 'refund' || act.op === 'refund outside'
}

function reserved(payment: Payment, state: State): number {
  return sum(payment, state, 'a') + sum(payment, state, 'd')
}

function sum({ acts }: Payment, { marks }: State, mark: string): number {
  return acts.reduce(
    (total, act, nth) => total + (isRefund(act) && marks[nth] === mark ? act.amount_minor : 0),
    0,
  )
}

// By whomever: a capture under way finds it done, a cancellation cannot be done any more.
function capturedAs(acts: Act[], state: State, captured: number): State {
  const marks = ended(acts, ended(acts, state.marks, 'capture', 'd'), 'cancel', 'f')
  return { ...state, status: 'captured', voided: false, failed: false, captured, marks }
}

function canceled(acts: Act[], state: State): State {
  const marks = ended(acts, ended(acts, state.marks, 'capture', 'f'), 'cancel', 'd')
  return { ...state, status: 'canceled', voided: false, failed: false, marks }
}

/** Marks all acts of a kind that are under way. */
function ended(acts: Act[], marks: Marks, op: Act['op'], to: 'd' | 'f'): Marks {
  return Array.from(marks, (mark, nth) => (mark === 'a' && acts[nth]!.op === op ? to : mark)).join('')
}

function marked(marks: Marks, nth: number, to: string): Marks {
  return `${marks.slice(0, nth)}${to}${marks.slice(nth + 1)}`
}
