// Recorded calls: the operation, its times, and the result.
import type { Answer } from '#test/client.ts'

/** A change of a payment. Two writes with the same key request the same change. */
export type Write = {
  op: 'create' | 'capture' | 'cancel' | 'refund'
  key: string
  /** Null for a capture: the full amount. */
  amount_minor: number | null
}

/** A change at the processor without Sluice. The change becomes visible at any later time, or never. */
export type ExternalChange =
  | { op: 'external capture' | 'external refund'; amount_minor: number }
  | { op: 'external cancel' }
  /** The final status of the refund that was requested with `key`. */
  | { op: 'external refund settlement'; key: string; status: 'succeeded' | 'failed' }

export type Operation =
  | Write
  | ExternalChange
  | { op: 'read' | 'list refunds' }
  | { op: 'read refund'; key: string }
  /** Lists payments with this status, in a range that contains only this payment. */
  | { op: 'list'; status: string }

/** A payment as an answer shows it. `failed`: the payment has a failure. */
export type PaymentView = {
  status: string
  capturable: number
  captured: number
  refunded: number
  failed: boolean
}

/** `key` is null for a refund that was made at the processor. */
export type RefundView = { key: string | null; status: string; amount_minor: number }

/** What an answer contains: the resource, the items of a list, or the code and context of a refusal. */
export type CallResult = {
  status: number
  /** The answer repeats an earlier answer. */
  replayed: boolean
  payment?: PaymentView
  refund?: RefundView
  refunds?: RefundView[]
  payments?: PaymentView[]
  refusal?: { code: string; context: Record<string, unknown> }
}

/** One client's call. Times: milliseconds of `performance.now()`. */
export type Call = {
  operation: Operation
  start: number
  /** Number of the API, from 1; 0: the processor. */
  api: number
  /** Null if there is no answer, or a 5xx: the call may take effect at any time after its start, or never. */
  answer: { end: number; result: CallResult } | null
}

/** All calls, by the idempotency key of their payment. */
export type Histories = Map<string, Call[]>

/** Adds a call to the history of its payment. */
export function recordCall(histories: Histories, payment: string, call: Call): void {
  const calls = histories.get(payment)
  if (calls === undefined) histories.set(payment, [call])
  else calls.push(call)
}

/** The result of an answer. Returns null if the answer does not say what was done. */
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
