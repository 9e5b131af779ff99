// What Sluice asks of a payment processor, whoever it is.
import type { Json } from '#core/db.ts'
import type { Outcome } from '#core/outcome.ts'

/** A payment as the processor tells it. Amounts in the currency's smallest unit, `currency` upper case. */
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

/** A refund as the processor tells it. */
export type ProcessorRefund = {
  reference: string
  payment_reference: string | null
  status: 'pending' | 'succeeded' | 'failed'
  amount_minor: number
  currency: string
  failure_reason: string | null
  /** Only a hold was let go: no money moved, and none may be booked. */
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

/** What a processor tells, as it can be stored; it holds no secrets. */
export type ProcessorEvent = {
  /** Of which account of ours, empty where there is one only. */
  account: string
  event_id: string
  /** The processor's word for what happened. */
  kind: string
  /** What it calls the thing that it happened to, if it says so. */
  object_id: string | null
  payload: Json
}

/** What an event is about, in our words. What it claims of it is not believed: the processor is asked. */
export type ProcessorNews = {
  /** Our noun. */
  subject: string
  /** What the processor calls it. */
  reference: string
  /** The payment that it is or belongs to; null where that is not told. */
  payment_reference: string | null
  /** Whether it carries our ids, as all has from its first moment on that we make there. */
  marked: boolean
}

/** Whether metadata at a processor are ours. */
export function isMarked(metadata: Record<string, unknown>): boolean {
  return Object.keys(metadata).some((name) => name.startsWith('sluice_'))
}

/** Unix seconds, both included; `after` is the `last` of the page before, null for the first. */
type EventRange = { from_s: number; to_s: number; after: string | null }
type EventPage = {
  /** As their notifications would have brought them. */
  events: ProcessorEvent[]
  /** When the first of them happened, unix seconds; null on an empty page. */
  newest_s: number | null
  /** Null when there are no more. */
  last: string | null
}

/**
 * Every writing call takes the stored key of its provider call; every answer is classified, none is thrown. A call that its
 * job's permit does not let start rejects with `NotStarted`.
 */
export type PaymentProcessor = {
  readonly name: string
  authorize(request: AuthorizeCall, key: string): Promise<Outcome<ProcessorPayment>>
  capture(request: CaptureCall, key: string): Promise<Outcome<ProcessorPayment>>
  cancel(request: CancelCall, key: string): Promise<Outcome<ProcessorPayment>>
  refund(request: RefundCall, key: string): Promise<Outcome<ProcessorRefund>>
  /** Null: the processor knows no such payment. */
  findPayment(reference: string): Promise<Outcome<ProcessorPayment | null>>
  /** By `sluice_payment_id` in the metadata. Null proves nothing: search is eventually consistent. */
  searchPayment(payment_id: string): Promise<Outcome<ProcessorPayment | null>>
  findRefund(reference: string): Promise<Outcome<ProcessorRefund | null>>
  /** By `sluice_refund_id` among the refunds of a payment. */
  searchRefund(payment_reference: string, refund_id: string): Promise<Outcome<ProcessorRefund | null>>
  /** How long it keeps its events, in seconds. */
  readonly events_kept_s: number
  /** What an event of its is about, by the stored `payload`; null where that is nothing that we follow. */
  newsOf(payload: Json): ProcessorNews | null
  /** What happened to payments and refunds, newest first, a page at a time. */
  listEvents(range: EventRange): Promise<Outcome<EventPage>>
}
