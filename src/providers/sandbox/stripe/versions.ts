// The types of objects. Each change creates a new immutable version.
import type { Params } from './parse.ts'

/** Events and stored answers refer to versions instead of copying objects. */
type Versioned = {
  id: string
  /** Unix seconds. */
  created: number
  /** Unique over all objects. */
  revision: number
  metadata: Record<string, string>
}

export type PaymentError = {
  type: 'card_error' | 'invalid_request_error'
  code: string
  message: string
  decline_code?: string
  charge?: string
  /** The declined method, which the intent no longer has. */
  method: Method | null
}

/** A use of a test method: `id` in answers, `token` as requested. */
export type Method = { id: string; token: string }

export type Intent = Versioned & {
  object: 'payment_intent'
  amount: number
  amount_capturable: number
  amount_received: number
  currency: string
  status:
    | 'requires_payment_method'
    | 'requires_confirmation'
    | 'requires_action'
    | 'requires_capture'
    | 'succeeded'
    | 'canceled'
  capture_method: 'automatic' | 'automatic_async' | 'manual'
  client_secret: string
  customer: string | null
  description: string | null
  receipt_email: string | null
  statement_descriptor: string | null
  statement_descriptor_suffix: string | null
  transfer_group: string | null
  setup_future_usage: string | null
  /** `automatic_payment_methods`; null: only `method_types` are accepted. */
  automatic: { enabled: boolean; allow_redirects: string } | null
  method_types: string[]
  method: Method | null
  return_url: string | null
  latest_charge: string | null
  error: PaymentError | null
  canceled_at: number | null
  cancellation_reason: string | null
}

export type Charge = Versioned & {
  object: 'charge'
  payment_intent: string
  amount: number
  amount_captured: number
  /** Refunded and released amounts. */
  amount_refunded: number
  currency: string
  status: 'succeeded' | 'failed'
  captured: boolean
  customer: string | null
  description: string | null
  method: Method
  authenticated: boolean
  /** Unix seconds; null once captured. */
  capture_before: number | null
  failure: { code: string; message: string; decline_code?: string } | null
  balance_transaction: string | null
  disputed: boolean
}

export type Refund = Versioned & {
  object: 'refund'
  amount: number
  currency: string
  charge: string
  payment_intent: string
  reason: string | null
  status: 'pending' | 'requires_action' | 'succeeded' | 'failed' | 'canceled'
  failure_reason: string | null
  balance_transaction: string | null
  failure_balance_transaction: string | null
}

export type Payout = Versioned & {
  object: 'payout'
  amount: number
  currency: string
  /** Unix seconds, the beginning of a day. */
  arrival_date: number
  /** `ba_...` or `card_...`. */
  destination: string
  method: 'standard' | 'instant'
  source_type: string
  description: string | null
  statement_descriptor: string | null
  status: 'pending' | 'in_transit' | 'paid' | 'failed' | 'canceled'
  failure: { code: string; message: string } | null
  balance_transaction: string
  failure_balance_transaction: string | null
}

export type Transfer = Versioned & {
  object: 'transfer'
  amount: number
  amount_reversed: number
  currency: string
  /** `acct_...`. */
  destination: string
  destination_payment: string
  description: string | null
  source_transaction: string | null
  source_type: string
  transfer_group: string | null
  balance_transaction: string
  /** Newest first, limited as in Stripe's transfer object. */
  latest_reversals: Reversal[]
  reversal_count: number
}

export type Reversal = Versioned & {
  object: 'transfer_reversal'
  transfer: string
  amount: number
  currency: string
  balance_transaction: string
  destination_payment_refund: string
}

export type Topup = Versioned & {
  object: 'topup'
  amount: number
  currency: string
  source: string | null
  payment_method: string | null
  description: string | null
  statement_descriptor: string | null
  transfer_group: string | null
  /** Unix seconds. */
  expected_availability_date: number
  status: 'pending' | 'succeeded' | 'failed' | 'canceled' | 'reversed'
  failure: { code: string; message: string } | null
  balance_transaction: string | null
}

export type Dispute = Versioned & {
  object: 'dispute'
  payment_intent: string
  charge: string
  amount: number
  currency: string
  method: Method
  reason: string
  /** Statuses of an inquiry begin with `warning_`. */
  status:
    | 'needs_response'
    | 'under_review'
    | 'won'
    | 'lost'
    | 'warning_needs_response'
    | 'warning_under_review'
    | 'warning_closed'
  /** Unix seconds. */
  due_by: number
  evidence: Params
  submission_count: number
  /** Balance transactions: withdrawals (negative) and reinstatements. */
  movements: { id: string; created: number; amount: number; fee: number }[]
}

export type VerificationSession = Versioned & {
  object: 'identity.verification_session'
  type: 'document' | 'id_number'
  status: 'requires_input' | 'processing' | 'verified' | 'canceled'
  options: Record<string, unknown>
  provided_details: Params | null
  client_reference_id: string | null
  related_customer: string | null
  return_url: string | null
  last_error: { code: string; reason: string } | null
  report: string | null
  redaction: 'processing' | 'redacted' | null
  /** The link of this answer. Events and later answers do not have it. */
  link: { token: string; secret: string } | null
  /** Unused links, with their expiry in unix seconds. */
  unused: { token: string; until: number }[]
}

export type Version =
  | Intent
  | Charge
  | Refund
  | Dispute
  | Payout
  | Transfer
  | Reversal
  | Topup
  | VerificationSession
