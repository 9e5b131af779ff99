// The interface of a payment processor.
import type { Outcome } from '#core/outcome.ts'
import type { ObjectLists } from './objects.ts'
import type { ProcessorDispute } from './disputes.ts'
import type { ProviderEvent } from './events.ts'

/** The processor's record of a payment. Amounts are in the currency's smallest unit, `currency` in upper case. */
export type ProcessorPayment = {
  reference: string
  status: 'requires_action' | 'processing' | 'authorized' | 'captured' | 'canceled' | 'failed'
  amount_minor: number
  amount_capturable_minor: number
  amount_captured_minor: number
  /** The sum of the refunds that did not fail; null if the processor did not report it. */
  amount_refunded_minor: number | null
  currency: string
  /** For the buyer's browser; null when no action is required. Never logged. */
  client_secret: string | null
  /** ISO 8601: when the amount was authorized; null if it was not, or if that is not known. */
  authorized_at: string | null
  /** ISO 8601: when an uncaptured authorization expires. */
  capture_before: string | null
  cancellation_reason: string | null
  /** Why the last authorization attempt failed. */
  failure: {
    code: string
    message: string
    decline_code: string | null
    /** Whether the buyer failed to authenticate and may try again. */
    may_retry: boolean
  } | null
  description: string | null
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
  /** Whether the refund only released a hold: then no money moved, and nothing may be posted. */
  released_hold: boolean
  /** The reason code that was requested. */
  reason: string | null
  metadata: Record<string, string>
}

export type AuthorizeCall = {
  amount_minor: number
  currency: string
  description: string | null
  /** A processor token. Null: the buyer confirms in the browser. */
  payment_method: string | null
  return_url: string | null
  /** Sluice ids for matching notifications and searches: `sluice_payment_id`, `sluice_tenant_id`. */
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

/** Whether metadata of a processor contains Sluice ids. */
export function hasSluiceIds(metadata: Record<string, unknown>): boolean {
  return Object.keys(metadata).some((name) => name.startsWith('sluice_'))
}

/** A time range in Unix seconds, both ends inclusive. `after`: `last` of the previous page; null for the first page. */
type EventRange = { from_s: number; to_s: number; after: string | null }
type EventPage = {
  /** The events in the form in which notifications are stored. */
  events: ProviderEvent[]
  /** The creation time of the first event in Unix seconds; null on an empty page. */
  newest_s: number | null
  /** The id of the last event, after which the next page begins; null if there is no next page. */
  last: string | null
}

/**
 * Calls that change something take the idempotency key that is stored with their job. Outcomes are returned, never
 * thrown. A call that the job's permit does not allow rejects with `NotStarted`.
 */
export type PaymentProcessor = {
  readonly name: string
  /** The lists of the objects by creation time. */
  readonly lists: ObjectLists
  /** A fingerprint of the credentials. Calls with other credentials may belong to another account. */
  readonly credentials: string
  /** The id of the account of the credentials. */
  findAccount(): Promise<Outcome<string>>
  authorize(request: AuthorizeCall, key: string): Promise<Outcome<ProcessorPayment>>
  capture(request: CaptureCall, key: string): Promise<Outcome<ProcessorPayment>>
  cancel(request: CancelCall, key: string): Promise<Outcome<ProcessorPayment>>
  refund(request: RefundCall, key: string): Promise<Outcome<ProcessorRefund>>
  /** Looks up a payment. Null: the processor has no such payment. */
  findPayment(reference: string): Promise<Outcome<ProcessorPayment | null>>
  /**
   * Searches all payments created from `from_s` to `to_s` (unix seconds, both inclusive) for the payment with this
   * `sluice_payment_id` in its metadata. Null: the account has no such payment. `now_s`: the current time by the clock
   * of the range. If the provider's clock differs, an empty result is ambiguous.
   */
  listPayment(query: {
    payment_id: string
    from_s: number
    to_s: number
    now_s: number
  }): Promise<Outcome<ProcessorPayment | null>>
  /**
   * Searches for the payment with this `sluice_payment_id` in its metadata. Null proves nothing, because the search
   * index is updated with a delay.
   */
  searchPayment(payment_id: string): Promise<Outcome<ProcessorPayment | null>>
  findRefund(reference: string): Promise<Outcome<ProcessorRefund | null>>
  /** Searches the refunds of a payment for the refund with this `sluice_refund_id` in its metadata. */
  searchRefund(payment_reference: string, refund_id: string): Promise<Outcome<ProcessorRefund | null>>
  findDispute(reference: string): Promise<Outcome<ProcessorDispute | null>>
  /** How long the processor stores its events, in seconds. */
  readonly event_retention_s: number
  /** Lists the events of all tracked objects, newest first, one page per call. */
  listEvents(range: EventRange): Promise<Outcome<EventPage>>
}
