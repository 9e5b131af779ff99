// Example payments: only the fields in which they differ from the examples of the schema.
import { PAYMENTS } from '#core/config/providers.ts'

const LATER = '2026-11-20T10:17:02.654321Z'
const OPEN = { captured_at: null, canceled_at: null, cancellation_reason: null }

export const PENDING = {
  ...OPEN,
  status: 'pending',
  amount_capturable_minor: 0,
  processor_reference: null,
  capture_before: null,
  authorized_at: null,
}
export const REQUIRES_ACTION = {
  ...OPEN,
  status: 'requires_action',
  amount_capturable_minor: 0,
  capture_before: null,
  authorized_at: null,
}
export const AUTHORIZED = OPEN
export const CAPTURING = { ...OPEN, status: 'capturing' }
export const CAPTURED = {
  ...OPEN,
  status: 'captured',
  amount_capturable_minor: 0,
  amount_captured_minor: 1000,
  captured_at: LATER,
  updated_at: LATER,
}
export const CANCELING = { ...OPEN, status: 'canceling', cancellation_reason: 'requested_by_customer' }
export const CANCELED = {
  ...OPEN,
  status: 'canceled',
  amount_capturable_minor: 0,
  canceled_at: LATER,
  updated_at: LATER,
  cancellation_reason: 'requested_by_customer',
}
export const DECLINED = {
  code: 'payment_declined',
  message: 'Your card has insufficient funds.',
  decline_code: 'insufficient_funds',
}
export const FAILED = { ...REQUIRES_ACTION, status: 'failed', failure: DECLINED }
/** A failure of the processor. */
export const PROCESSOR_FAILED = {
  code: 'processor_error',
  message: 'The payment processor could not be reached.',
}

export const PAYMENT_REQUESTS = {
  card: {
    summary: 'A card, by its token',
    value: {
      idempotency_key: 'order-17-payment',
      amount_minor: 1000,
      currency: 'USD',
      method: 'card',
      payment_method: PAYMENTS.examples.payment_method,
      description: 'Order 17',
      metadata: { order: 'A-17' },
    },
  },
  authentication: {
    summary: 'A card that requires 3-D Secure',
    value: {
      idempotency_key: 'order-18-payment',
      amount_minor: 1000,
      currency: 'EUR',
      method: 'card',
      payment_method: PAYMENTS.examples.payment_method_that_authenticates,
      return_url: 'https://shop.example/orders/18',
    },
  },
  front_end: {
    summary: "The buyer enters the card in the processor's own front end",
    value: {
      idempotency_key: 'order-19-payment',
      amount_minor: 1000,
      currency: 'JPY',
      method: 'card',
    },
  },
}
