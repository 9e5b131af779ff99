// Translates calls and their answers into steps of the state machine.
import type { Call, CallResult, PaymentView, RefundView, Write } from './call.ts'
import {
  afterAcceptance,
  isRefund,
  afterSettlement,
  viewPayment,
  type Change,
  type Payment,
  type State,
} from './payment.ts'
import type { Span, Step } from './search.ts'

/** The changes that these calls request, each once. */
export function changesOf(calls: Call[]): Change[] {
  const changes = new Map<string, Change>()
  for (const { operation } of calls) {
    if (
      operation.op === 'external refund settlement' ||
      !('amount_minor' in operation || operation.op === 'external cancel')
    )
      continue
    const key = 'key' in operation ? `${operation.op} ${operation.key}` : `${operation.op} ${changes.size}`
    if (!changes.has(key)) changes.set(key, operation)
  }
  return [...changes.values()]
}

/** The span of a call; undefined for a read without an answer. */
export function spanOf(payment: Payment, call: Call): Span<State> | undefined {
  const { operation, start, answer } = call
  const result = answer?.result
  const required = (steps: Step<State>[]) => ({ start, end: answer!.end, optional: false, steps })
  const possible = (step: Step<State>) => ({ start, end: Infinity, optional: true, steps: [step] })
  switch (operation.op) {
    case 'create':
    case 'capture':
    case 'cancel':
    case 'refund': {
      const nth = payment.changes.findIndex(
        (change) => change.op === operation.op && change.key === operation.key,
      )
      return result === undefined
        ? possible(acceptStep(payment, nth))
        : required(stepsOf(payment, nth, operation, result))
    }
    case 'external capture':
    case 'external cancel':
    case 'external refund':
      return possible(acceptStep(payment, payment.changes.indexOf(operation)))
    case 'external refund settlement': {
      const nth = refundOf(payment, operation.key)
      return possible({ reads: false, next: (state) => afterSettlement(state, nth, operation.status) })
    }
    case 'read':
      return result && required([paymentStep(payment, result.payment)])
    case 'list': {
      const [listed] = result?.payments ?? []
      const missing = readStep(({ status }) => status !== operation.status)
      const listed_steps =
        result && listed
          ? [paymentStep(payment, listed), readStep(() => listed.status === operation.status)]
          : [missing]
      return result && required(result.refusal ? [impossible] : listed_steps)
    }
    case 'read refund':
      return result && required([refundStep(payment, result.refund)])
    case 'list refunds':
  }
  return result && required([refundsStep(payment, result.refunds)])
}

const impossible: Step<State> = { reads: true, next: () => null }

function readStep(holds: (state: State) => boolean): Step<State> {
  return { reads: true, next: (state) => (holds(state) ? state : null) }
}

function acceptStep(payment: Payment, nth: number): Step<State> {
  return { reads: false, next: (state) => afterAcceptance(payment, state, nth) }
}

/**
 * The steps of an answered change. First the change is accepted, by this call or by an earlier call with the same key,
 * or it is refused. Then the payment is read.
 */
function stepsOf(payment: Payment, nth: number, operation: Write, result: CallResult): Step<State>[] {
  const { refusal } = result
  if (refusal === undefined) {
    const accepted_step = result.replayed
      ? readStep(({ marks }) => marks[nth] !== '-')
      : acceptStep(payment, nth)
    if (result.refund !== undefined) return [accepted_step, refundStep(payment, result.refund)]
    return [
      accepted_step,
      paymentStep(payment, result.status === 202 ? result.payment : finalView(operation, result.payment)),
    ]
  }
  // The job failed: the refusal names the payment.
  if (refusal.context['payment_id'] !== undefined) {
    const accepted_step: Step<State> = {
      reads: false,
      next: (state) => (state.marks[nth] === '-' ? afterAcceptance(payment, state, nth) : state),
    }
    const final_status = operation.op === 'create' ? readStep(({ status }) => status === 'failed') : []
    return [accepted_step, readStep(({ marks }) => marks[nth] === 'f'), final_status].flat()
  }
  const unknown = (holds: (state: State) => boolean) =>
    readStep((state) => state.marks[nth] === '-' && holds(state))
  const guarded = unknown((state) => afterAcceptance(payment, state, nth) === null)
  // Two statements refuse a cancellation: the one that requests it, and the one that joins a requested cancellation.
  if (operation.op === 'cancel')
    return [
      unknown(({ status, voided }) => status !== 'authorized' && (status !== 'pending' || voided)),
      unknown(({ status, voided }) => status !== 'canceling' && (status !== 'pending' || !voided)),
      refusalStep(payment, operation, result),
    ]
  return [guarded, refusalStep(payment, operation, result)]
}

/** The payment in an answer that reports success; undefined if the answer contradicts a success. */
function finalView({ op }: Write, view: PaymentView | undefined): PaymentView | undefined {
  const is = {
    create: view?.status !== 'pending',
    capture: view?.status === 'captured',
    cancel: view?.status === 'canceled',
  }
  return op === 'refund' || is[op] ? view : undefined
}

/** A step of its own: the context of a refusal is read after the request was refused. */
function refusalStep(payment: Payment, { amount_minor }: Write, { refusal }: CallResult): Step<State> {
  const { code, context } = refusal!
  const capturable = (state: State) => viewPayment(payment, state).capturable
  switch (code) {
    case 'payment_not_capturable':
    case 'payment_not_cancelable':
    case 'payment_not_refundable':
      return readStep(({ status }) => status === context['status'])
    case 'amount_too_large':
      return readStep(
        (state) =>
          state.status === 'authorized' &&
          capturable(state) === context['amount_capturable_minor'] &&
          (amount_minor ?? 0) > capturable(state),
      )
    case 'refund_exceeds_captured':
      return readStep((state) => {
        const { captured, refunded } = viewPayment(payment, state)
        const matches =
          captured === context['amount_captured_minor'] && refunded === context['amount_refunded_minor']
        return state.status === 'captured' && matches
      })
    default:
      return impossible
  }
}

function paymentStep(payment: Payment, view: PaymentView | undefined): Step<State> {
  if (view === undefined) return impossible
  return readStep((state) => {
    const { status, capturable, captured, refunded, failed } = viewPayment(payment, state)
    if (status !== view.status || capturable !== view.capturable) return false
    if (captured !== view.captured || refunded !== view.refunded) return false
    // In other states the failure belongs to the authorization or to an earlier change.
    return status !== 'authorized' || failed === view.failed
  })
}

const REFUND_STATUS: Record<string, string> = { a: 'pending', d: 'succeeded', f: 'failed' }

function refundStep(payment: Payment, view: RefundView | undefined): Step<State> {
  if (view === undefined || view.key === null) return impossible
  const nth = refundOf(payment, view.key)
  if (nth === -1 || (payment.changes[nth] as Write).amount_minor !== view.amount_minor) return impossible
  return readStep(({ marks }) => REFUND_STATUS[marks[nth]!] === view.status)
}

function refundsStep(payment: Payment, view: RefundView[] | undefined): Step<State> {
  if (view === undefined) return impossible
  const listed = view.map(refundText).toSorted().join()
  return readStep(({ marks }) => {
    const existing = payment.changes.flatMap((change, nth) => {
      const status = REFUND_STATUS[marks[nth]!]
      if (!isRefund(change) || status === undefined) return []
      return [
        refundText({
          key: change.op === 'refund' ? change.key : null,
          status,
          amount_minor: change.amount_minor,
        }),
      ]
    })
    return existing.toSorted().join() === listed
  })
}

const refundText = ({ key, status, amount_minor }: RefundView) => `${key} ${status} ${amount_minor}`

function refundOf({ changes }: Payment, key: string): number {
  return changes.findIndex((change) => change.op === 'refund' && change.key === key)
}
