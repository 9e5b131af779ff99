// What each answer says about the payment, as steps that the state machine can follow or not.
import type { Call, Said, Shown, ShownRefund, Write } from './call.ts'
import { accepted, isRefund, settled, shownIn, type Act, type Payment, type State } from './payment.ts'
import type { Span, Step } from './search.ts'

/** The changes that these calls asked for, each once. */
export function actsOf(calls: Call[]): Act[] {
  const acts = new Map<string, Act>()
  for (const { asked } of calls) {
    if (asked.op === 'refund settles outside' || !('amount_minor' in asked || asked.op === 'cancel outside'))
      continue
    const key = 'key' in asked ? `${asked.op} ${asked.key}` : `${asked.op} ${acts.size}`
    if (!acts.has(key)) acts.set(key, asked)
  }
  return [...acts.values()]
}

/** The span of a call. Undefined for a read without an answer: it says nothing. */
export function spanOf(payment: Payment, call: Call): Span<State> | undefined {
  const { asked, start, answer } = call
  const said = answer?.said
  const happens = (steps: Step<State>[]) => ({ start, end: answer!.end, optional: false, steps })
  const may = (step: Step<State>) => ({ start, end: Infinity, optional: true, steps: [step] })
  switch (asked.op) {
    case 'create':
    case 'capture':
    case 'cancel':
    case 'refund': {
      const nth = payment.acts.findIndex((act) => act.op === asked.op && act.key === asked.key)
      return said === undefined ? may(accepting(payment, nth)) : happens(stepsOf(payment, nth, asked, said))
    }
    case 'capture outside':
    case 'cancel outside':
    case 'refund outside':
      return may(accepting(payment, payment.acts.indexOf(asked)))
    case 'refund settles outside': {
      const nth = refundOf(payment, asked.key)
      return may({ reads: false, next: (state) => settled(state, nth, asked.status) })
    }
    case 'read':
      return said && happens([showing(payment, said.payment)])
    case 'list': {
      const [listed] = said?.payments ?? []
      const missing = reading(({ status }) => status !== asked.status)
      const held =
        said && listed ? [showing(payment, listed), reading(() => listed.status === asked.status)] : [missing]
      return said && happens(said.refusal ? [never] : held)
    }
    case 'read refund':
      return said && happens([showingRefund(payment, said.refund)])
    case 'list refunds':
  }
  return said && happens([showingRefunds(payment, said.refunds)])
}

const never: Step<State> = { reads: true, next: () => null }

function reading(holds: (state: State) => boolean): Step<State> {
  return { reads: true, next: (state) => (holds(state) ? state : null) }
}

function accepting(payment: Payment, nth: number): Step<State> {
  return { reads: false, next: (state) => accepted(payment, state, nth) }
}

/** A change that was answered: it was accepted, now or before, or refused; then the payment was read. */
function stepsOf(payment: Payment, nth: number, asked: Write, said: Said): Step<State>[] {
  const { refusal } = said
  if (refusal === undefined) {
    const taken = said.replayed ? reading(({ marks }) => marks[nth] !== '-') : accepting(payment, nth)
    if (said.refund !== undefined) return [taken, showingRefund(payment, said.refund)]
    return [taken, showing(payment, said.status === 202 ? said.payment : finished(asked, said.payment))]
  }
  // The job failed: the refusal names what it was about.
  if (refusal.facts['payment_id'] !== undefined) {
    const taken: Step<State> = {
      reads: false,
      next: (state) => (state.marks[nth] === '-' ? accepted(payment, state, nth) : state),
    }
    const whole = asked.op === 'create' ? reading(({ status }) => status === 'failed') : []
    return [taken, reading(({ marks }) => marks[nth] === 'f'), whole].flat()
  }
  const unknown = (holds: (state: State) => boolean) =>
    reading((state) => state.marks[nth] === '-' && holds(state))
  const guarded = unknown((state) => accepted(payment, state, nth) === null)
  // A cancellation is asked for by one statement and joined by another.
  if (asked.op === 'cancel')
    return [
      unknown(({ status, voided }) => status !== 'authorized' && (status !== 'pending' || voided)),
      unknown(({ status, voided }) => status !== 'canceling' && (status !== 'pending' || !voided)),
      explaining(payment, asked, said),
    ]
  return [guarded, explaining(payment, asked, said)]
}

/** What is shown by an answer that says that it is done; undefined where that cannot be. */
function finished({ op }: Write, shown: Shown | undefined): Shown | undefined {
  const is = {
    create: shown?.status !== 'pending',
    capture: shown?.status === 'captured',
    cancel: shown?.status === 'canceled',
  }
  return op === 'refund' || is[op] ? shown : undefined
}

/** A refusal names facts, read after the guard refused. */
function explaining(payment: Payment, { amount_minor }: Write, { refusal }: Said): Step<State> {
  const { code, facts } = refusal!
  const capturable = (state: State) => shownIn(payment, state).capturable
  switch (code) {
    case 'payment_not_capturable':
    case 'payment_not_cancelable':
    case 'payment_not_refundable':
      return reading(({ status }) => status === facts['status'])
    case 'amount_too_large':
      return reading(
        (state) =>
          state.status === 'authorized' &&
          capturable(state) === facts['amount_capturable_minor'] &&
          (amount_minor ?? 0) > capturable(state),
      )
    case 'refund_exceeds_captured':
      return reading((state) => {
        const { captured, refunded } = shownIn(payment, state)
        const as_told =
          captured === facts['amount_captured_minor'] && refunded === facts['amount_refunded_minor']
        return state.status === 'captured' && as_told
      })
    default:
      return never
  }
}

function showing(payment: Payment, shown: Shown | undefined): Step<State> {
  if (shown === undefined) return never
  return reading((state) => {
    const { status, capturable, captured, refunded, failed } = shownIn(payment, state)
    if (status !== shown.status || capturable !== shown.capturable) return false
    if (captured !== shown.captured || refunded !== shown.refunded) return false
    // Elsewhere it tells about the authorization, or about what is past.
    return status !== 'authorized' || failed === shown.failed
  })
}

const REFUND_STATUS: Record<string, string> = { a: 'pending', d: 'succeeded', f: 'failed' }

function showingRefund(payment: Payment, shown: ShownRefund | undefined): Step<State> {
  if (shown === undefined || shown.key === null) return never
  const nth = refundOf(payment, shown.key)
  if (nth === -1 || (payment.acts[nth] as Write).amount_minor !== shown.amount_minor) return never
  return reading(({ marks }) => REFUND_STATUS[marks[nth]!] === shown.status)
}

function showingRefunds(payment: Payment, shown: ShownRefund[] | undefined): Step<State> {
  if (shown === undefined) return never
  const listed = shown.map(inWords).toSorted().join()
  return reading(({ marks }) => {
    const known = payment.acts.flatMap((act, nth) => {
      const status = REFUND_STATUS[marks[nth]!]
      if (!isRefund(act) || status === undefined) return []
      return [inWords({ key: act.op === 'refund' ? act.key : null, status, amount_minor: act.amount_minor })]
    })
    return known.toSorted().join() === listed
  })
}

const inWords = ({ key, status, amount_minor }: ShownRefund) => `${key} ${status} ${amount_minor}`

function refundOf({ acts }: Payment, key: string): number {
  return acts.findIndex((act) => act.op === 'refund' && act.key === key)
}
