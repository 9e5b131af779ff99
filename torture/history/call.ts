// What is kept of a call: who was asked for what, when, and what was answered.
import type { Answer } from '#test/client.ts'

/** What changes a payment. Under the same key it is the same change, asked for again. */
export type Write = {
  op: 'create' | 'capture' | 'cancel' | 'refund'
  key: string
  /** Of a capture, null: all that is held. */
  amount_minor: number | null
}

/** What others do at the processor: it shows here at any time afterwards, or never. */
export type ExternalChange =
  | { op: 'external capture' | 'external refund'; amount_minor: number }
  | { op: 'external cancel' }
  /** What becomes of the refund that was asked for under `key`. */
  | { op: 'external refund settlement'; key: string; status: 'succeeded' | 'failed' }

export type Operation =
  | Write
  | ExternalChange
  | { op: 'read' | 'list refunds' }
  | { op: 'read refund'; key: string }
  /** A list of those in that status, which could hold only this one. */
  | { op: 'list'; status: string }

/** A payment as it was shown. `failed`: it names a failure. */
export type PaymentView = {
  status: string
  capturable: number
  captured: number
  refunded: number
  failed: boolean
}

/** `key` is null for a refund that others made. */
export type RefundView = { key: string | null; status: string; amount_minor: number }

/** What an answer said. A list has those that it held; a refusal has its code and the facts that it gave. */
export type CallResult = {
  status: number
  /** It said that it was asked before. */
  replayed: boolean
  payment?: PaymentView
  refund?: RefundView
  refunds?: RefundView[]
  payments?: PaymentView[]
  refusal?: { code: string; context: Record<string, unknown> }
}

/** A call of one client. Times are in milliseconds of `performance.now()`. */
export type Call = {
  operation: Operation
  start: number
  /** Which API was asked, from 1; 0: the processor. */
  api: number
  /** Null when nothing came, or a 5xx: then it may take effect at any time after its start, or never. */
  answer: { end: number; result: CallResult } | null
}

/** All calls, by the key of the payment that they are about. */
export type Histories = Map<string, Call[]>

/** Adds a call to the history of its payment. */
export function recordCall(histories: Histories, payment: string, call: Call): void {
  const calls = histories.get(payment)
  if (calls === undefined) histories.set(payment, [call])
  else calls.push(call)
}

/** What the checks need of an answer; null when it does not say what was done. */
export function resultOf(operation: Operation, answer: Answer | null): CallResult | null {
  if (answer === null || answer.status >= 500 || answer.status === 408 || answer.status === 429) return null
  const { status, body, headers } = answer
  const result: CallResult = { status, replayed: headers.get('idempotent-replayed') === 'true' }
  if (status >= 400) {
    const { code, context = {} } = body.error as { code: string; context?: Record<string, unknown> }
    return { ...result, refusal: { code, context: context } }
  }
  if (operation.op === 'list refunds') return { ...result, refunds: (body as object[]).map(refundViewOf) }
  if (operation.op === 'list') return { ...result, payments: (body as object[]).map(paymentViewOf) }
  if (operation.op === 'refund' || operation.op === 'read refund')
    return { ...result, refund: refundViewOf(body) }
  return { ...result, payment: paymentViewOf(body) }
}

function paymentViewOf(body: any): PaymentView {
  return {
    status: body.status,
    capturable: body.amount_capturable_minor,
    captured: body.amount_captured_minor,
    refunded: body.amount_refunded_minor,
    failed: body.failure !== null,
  }
}

function refundViewOf(body: any): RefundView {
  return { key: body.idempotency_key, status: body.status, amount_minor: body.amount_minor }
}
