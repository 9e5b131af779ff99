// Validates Stripe's payment intents and refunds and converts them.
import type { Stripe } from 'stripe'
import { NoAnswer } from '../http.ts'
import type { ProcessorPayment, ProcessorRefund } from '../payments.ts'
import { PAYMENT_STATUS, REFUND_STATUS } from './statuses.ts'

/** Payment statuses by progress, least advanced first. */
export const PAYMENT_PROGRESS: ProcessorPayment['status'][] = [
  'failed',
  'canceled',
  'requires_action',
  'processing',
  'authorized',
  'captured',
]

/** Converts a payment intent. `reference`: the expected id. Throws NoAnswer if the answer is invalid. */
export function toPayment(intent: Stripe.PaymentIntent, reference?: string): ProcessorPayment {
  const status = PAYMENT_STATUS.get(intent.status)
  assertAnswer(intent.object === 'payment_intent' && isId(intent.id, 'pi_'), 'not a payment intent')
  assertAnswer(reference === undefined || intent.id === reference, 'not the requested payment intent')
  assertAnswer(status !== undefined, 'a payment intent with an unknown status')
  assertAnswer(
    isAmount(intent.amount) && isAmount(intent.amount_capturable) && isAmount(intent.amount_received),
    'a payment intent without amounts',
  )
  assertAnswer(typeof intent.currency === 'string', 'a payment intent without a currency')
  const charge = typeof intent.latest_charge === 'object' ? intent.latest_charge : null
  const card = charge?.payment_method_details?.card
  const error = intent.last_payment_error
  return {
    reference: intent.id,
    status,
    amount_minor: intent.amount,
    amount_capturable_minor: intent.amount_capturable,
    amount_captured_minor: intent.amount_received,
    amount_refunded_minor: status === 'captured' ? charge && refundedOf(charge) : 0,
    currency: intent.currency.toUpperCase(),
    client_secret: status === 'requires_action' ? (intent.client_secret ?? null) : null,
    authorized_at: charge?.status === 'succeeded' ? new Date(charge.created * 1000).toISOString() : null,
    capture_before: card?.capture_before ? new Date(card.capture_before * 1000).toISOString() : null,
    cancellation_reason: intent.cancellation_reason ?? null,
    failure: error
      ? {
          code: error.code ?? error.type,
          message: error.message ?? '',
          decline_code: error.decline_code ?? null,
          may_retry: error.code === 'payment_intent_authentication_failure',
        }
      : null,
    description: intent.description ?? null,
    metadata: intent.metadata ?? {},
  }
}

// The refunded amount. Stripe's own sum also counts amounts that were released and never captured.
function refundedOf({ amount, amount_captured, amount_refunded }: Stripe.Charge): number | null {
  if (!isAmount(amount) || !isAmount(amount_captured) || !isAmount(amount_refunded)) return null
  return Math.max(0, amount_refunded - (amount - amount_captured))
}

/** Converts a refund. `reference`: the expected id. Throws NoAnswer if the answer is invalid. */
export function toRefund(refund: Stripe.Refund, reference?: string): ProcessorRefund {
  const status = REFUND_STATUS.get(refund.status)
  // Refunds of some payment methods have ids with the prefix `pyr_`.
  assertAnswer(
    refund.object === 'refund' && (isId(refund.id, 're_') || isId(refund.id, 'pyr_')),
    'not a refund',
  )
  assertAnswer(reference === undefined || refund.id === reference, 'not the requested refund')
  assertAnswer(status !== undefined, 'a refund with an unknown status')
  assertAnswer(isAmount(refund.amount) && typeof refund.currency === 'string', 'a refund without an amount')
  const payment = refund.payment_intent
  return {
    reference: refund.id,
    payment_reference: typeof payment === 'string' ? payment : (payment?.id ?? null),
    status,
    amount_minor: refund.amount,
    currency: refund.currency.toUpperCase(),
    failure_reason: refund.failure_reason ?? (refund.status === 'canceled' ? 'canceled' : null),
    // Stripe may report a released hold as a refund, which then has no balance transaction.
    released_hold:
      refund.reason === 'expired_uncaptured_charge' ||
      (status === 'succeeded' && refund.balance_transaction === null),
    reason: refund.reason ?? null,
    metadata: refund.metadata ?? {},
  }
}

/**
 * Throws NoAnswer unless the condition is true. Needed because the SDK's types do not prove what an answer contains.
 */
export function assertAnswer(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new NoAnswer(`unreadable answer: ${problem}`, { sent: true })
}

/** Whether the value is an id of Stripe with this prefix, such as `pi_`. */
export function isId(value: unknown, prefix: string): boolean {
  return typeof value === 'string' && value.length > prefix.length && value.startsWith(prefix)
}

/** Whether the value is a safe integer of at least 0. */
export function isAmount(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
