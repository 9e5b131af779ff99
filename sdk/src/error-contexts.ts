// The `context` of each error code.
import type { AiTaskStatus, PaymentStatus, PayoutStatus } from './generated/schemas.ts'

/** The resource that the provider refused, by its id. */
type RefusedByProvider = {
  payment_id?: string
  refund_id?: string
  payout_id?: string
  top_up_id?: string
  kyc_id?: string
}
type UnsentMessage = { message_id?: string; provider_code?: string | null; provider_message?: string | null }

/** Codes that have a context. Fields can be missing, and new fields can be added. */
export interface ErrorContexts {
  payment_declined: RefusedByProvider & { decline_code?: string | null }
  payment_invalid: RefusedByProvider & { processor_code?: string | null }
  payout_refused: RefusedByProvider
  kyc_refused: RefusedByProvider
  processor_error: RefusedByProvider
  email_send_failed: UnsentMessage
  sms_send_failed: UnsentMessage
  payment_not_capturable: { status?: PaymentStatus }
  payment_not_cancelable: { status?: PaymentStatus }
  payment_not_refundable: { status?: PaymentStatus }
  payout_not_cancelable: { status?: PayoutStatus }
  payout_not_failable: { status?: PayoutStatus }
  ai_task_not_cancelable: { status?: AiTaskStatus }
  amount_too_large: { amount_capturable_minor?: number; currency?: string }
  refund_exceeds_captured: {
    amount_captured_minor?: number
    amount_refunded_minor?: number
    amount_refund_pending_minor?: number
    currency?: string
  }
  insufficient_balance: { available_minor?: number; requested_minor?: number; currency?: string }
  kyc_open: { kyc_id?: string }
  feed_restarted: { last_sequence_before?: number; next_sequence?: number }
  recovery_in_progress: { webhook_recovery_id?: string }
  test_clock_ahead: { now?: string; advance_to?: string | null }
  template_invalid: { line?: number | null; variable?: string | null }
  missing_scope: { scope?: string }
  destination_not_allowed: { country?: string }
}
