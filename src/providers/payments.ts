// The interface of a payment processor, and the types of what it is asked and answers.
import type { Outcome } from '#core/outcome.ts'
import type { ProcessorDispute } from './disputes.ts'
import type { ProviderEvent } from './events.ts'

/** The processor's record of a payment. Amounts are in the currency's smallest unit, `currency` in upper case. */
export type ProcessorPayment = {
  reference: string
  status: 'requires_action' | 'processing' | 'authorized' | 'captured' | 'canceled' | 'failed'
  amount_minor: number
  amount_capturable_minor: number
  amount_captured_minor: number
  /** By refunds that did not fail; null where the processor did not say. */
  amount_refunded_minor: number | null
  currency: string
  /** For the buyer's browser; null once it is of no use. Never logged. */
  client_secret: string | null
  /** ISO 8601; when an uncaptured hold lapses. */
  capture_before: string | null
  cancellation_reason: string | null
  /** Why the last try to authorize failed. */
  failure: {
    code: string
    message: string
    decline_code: string | null
    /** The buyer failed to authenticate, and may try again. */
    may_retry: boolean
  } | null
  metadata: Record<string, string>
}

/** The processor's record of a refund. */
export type ProcessorRefund = {
  reference: string
  payment_reference: string | null
  status: 'pending' | 'succeeded' | 'failed'
  amount_minor: number
  currency: string
  failure_reason: string | null
  /** True when only a hold was released: no money moved, and nothing may be booked. */
  released_hold: boolean
  metadata: Record<string, string>
}

export type AuthorizeCall = {
  amount_minor: number
  currency: string
  description: string | null
  /** A processor token; without it the buyer confirms in the browser. */
  payment_method: string | null
  return_url: string | null
  /** Our ids, so that notifications and searches can be joined: `sluice_payment_id`, `sluice_tenant_id`. */
  metadata: Record<string, string>
}
type CaptureCall = { reference: string; amount_minor: number }
export type CancelCall = { reference: string; reason: string | null }
export type RefundCall = {
  payment_reference: string
  amount_minor: number
  reason: string | null
  /** `sluice_refund_id`, `sluice_payment_id`, `sluice_tenant_id`. */
  metadata: Record<string, string>
}

/** Whether metadata at a processor carry our ids. */
export function hasSluiceIds(metadata: Record<string, unknown>): boolean {
  return Object.keys(metadata).some((name) => name.startsWith('sluice_'))
}

/** Unix seconds, both included; `after` is the `last` of the page before, null for the first. */
type EventRange = { from_s: number; to_s: number; after: string | null }
type EventPage = {
  /** The events, in the same form as their notifications bring them. */
  events: ProviderEvent[]
  /** When the first of them happened, unix seconds; null on an empty page. */
  newest_s: number | null
  /** Null when there are no more. */
  last: string | null
}

/**
 * Every call that writes takes the idempotency key that is stored with its job. Outcomes are returned, never thrown;
 * only a call that its job's permit does not allow to start rejects, with `NotStarted`.
 */
export type PaymentProcessor = {
  readonly name: string
  /** A fingerprint of the credentials: calls that were sent with others may be of another account. */
  readonly credentials: string
  /** The id of the account that they are of. */
  findAccount(): Promise<Outcome<string>>
  authorize(request: AuthorizeCall, key: string): Promise<Outcome<ProcessorPayment>>
  capture(request: CaptureCall, key: string): Promise<Outcome<ProcessorPayment>>
  cancel(request: CancelCall, key: string): Promise<Outcome<ProcessorPayment>>
  refund(request: RefundCall, key: string): Promise<Outcome<ProcessorRefund>>
  /** Null: the processor knows no such payment. */
  findPayment(reference: string): Promise<Outcome<ProcessorPayment | null>>
  /**
   * By `sluice_payment_id` in the metadata, among all payments made in this time (unix seconds, both included). Null:
   * the account has none. `now_s`: the present by the same clock; an absence with another clock is no answer.
   */
  listPayment(asked: {
    payment_id: string
    from_s: number
    to_s: number
    now_s: number
  }): Promise<Outcome<ProcessorPayment | null>>
  /** By `sluice_payment_id` in the metadata. Null proves nothing: search is eventually consistent. */
  searchPayment(payment_id: string): Promise<Outcome<ProcessorPayment | null>>
  findRefund(reference: string): Promise<Outcome<ProcessorRefund | null>>
  /** By `sluice_refund_id` among the refunds of a payment. */
  searchRefund(payment_reference: string, refund_id: string): Promise<Outcome<ProcessorRefund | null>>
  findDispute(reference: string): Promise<Outcome<ProcessorDispute | null>>
  /** How long the processor keeps its events, in seconds. */
  readonly event_retention_s: number
  /** What happened to payments, refunds and disputes, newest first, a page at a time. */
  listEvents(range: EventRange): Promise<Outcome<EventPage>>
}
