// Objects in the format of Stripe's API, version 2026-10-28.endive.
import { methodOf } from './methods.ts'
import { renderPayout, renderReversal, renderTopup, renderTransfer } from './render-balance.ts'
import { renderDispute } from './render-dispute.ts'
import { renderSession } from './render-identity.ts'
import type { Rendered } from './rendered.ts'
import type { Charge, Intent, Method, PaymentError, Refund, Version } from './versions.ts'

export const API_VERSION = '2026-10-28.endive'

/** Renders any object. `pages_url`: see `Engine`. */
export function render(version: Version, pages_url: string): Rendered {
  const rendering = RENDERINGS[version.object] as (version: Version, pages_url: string) => Rendered
  return rendering(version, pages_url)
}

const RENDERINGS: {
  [ResourceName in Version['object']]: (
    version: Extract<Version, { object: ResourceName }>,
    pages_url: string,
  ) => Rendered
} = {
  payment_intent: renderIntent,
  charge: renderCharge,
  refund: renderRefund,
  dispute: renderDispute,
  payout: renderPayout,
  transfer: renderTransfer,
  transfer_reversal: renderReversal,
  topup: renderTopup,
  'identity.verification_session': renderSession,
}

function renderIntent(intent: Intent, pages_url: string): Rendered {
  return {
    id: intent.id,
    object: 'payment_intent',
    allowed_payment_method_types: intent.automatic === null ? intent.method_types : null,
    amount: intent.amount,
    amount_capturable: intent.amount_capturable,
    amount_details: { tip: {} },
    amount_received: intent.amount_received,
    application: null,
    application_fee_amount: null,
    automatic_payment_methods: intent.automatic,
    canceled_at: intent.canceled_at,
    cancellation_reason: intent.cancellation_reason,
    capture_method: intent.capture_method,
    client_secret: intent.client_secret,
    confirmation_method: 'automatic',
    created: intent.created,
    currency: intent.currency,
    customer: intent.customer,
    customer_account: null,
    description: intent.description,
    excluded_payment_method_types: null,
    last_payment_error: intent.error && renderPaymentError(intent.error, intent.created),
    latest_charge: intent.latest_charge,
    livemode: false,
    managed_payments: null,
    metadata: intent.metadata,
    next_action: intent.status === 'requires_action' ? nextAction(intent, pages_url) : null,
    on_behalf_of: null,
    payment_method: intent.method?.id ?? null,
    payment_method_configuration_details: null,
    payment_method_options: {
      card: { installments: null, mandate_options: null, network: null, request_three_d_secure: 'automatic' },
    },
    payment_method_types: intent.method_types,
    payment_record: null,
    processing: null,
    receipt_email: intent.receipt_email,
    review: null,
    setup_future_usage: intent.setup_future_usage,
    shipping: null,
    source: null,
    statement_descriptor: intent.statement_descriptor,
    statement_descriptor_suffix: intent.statement_descriptor_suffix,
    status: intent.status,
    transfer_data: null,
    transfer_group: intent.transfer_group,
  }
}

function nextAction(intent: Intent, pages_url: string): Rendered {
  if (intent.return_url === null)
    return { type: 'use_stripe_sdk', use_stripe_sdk: { type: 'stripe_3ds2_fingerprint' } }
  const url = `${pages_url}/payment_intents/${intent.id}/authenticate`
  return { type: 'redirect_to_url', redirect_to_url: { return_url: intent.return_url, url } }
}

/**
 * Renders the error of a payment intent. `created`: the creation time of the payment intent, which is also reported for
 * the payment method.
 */
function renderPaymentError(error: PaymentError, created: number): Rendered {
  const { method, ...rest } = error
  return {
    ...rest,
    doc_url: `https://stripe.com/docs/error-codes/${error.code.replaceAll('_', '-')}`,
    ...(method && { payment_method: renderMethod(method, created, null) }),
  }
}

/** A payment method of a card, used once. */
export function renderMethod(method: Method, created: number, customer: string | null): Rendered {
  const { brand, last4, authenticates } = methodOf(method.token)
  return {
    id: method.id,
    object: 'payment_method',
    allow_redisplay: 'unspecified',
    billing_details: BILLING_DETAILS,
    card: {
      brand,
      checks: CHECKS,
      country: 'US',
      display_brand: brand,
      exp_month: 12,
      exp_year: 2034,
      fingerprint: `fp${method.token.length}${last4}`,
      funding: 'credit',
      generated_from: null,
      last4,
      networks: { available: [brand], preferred: null },
      regulated_status: 'unregulated',
      three_d_secure_usage: { supported: authenticates ?? true },
      wallet: null,
    },
    created,
    customer,
    customer_account: null,
    livemode: false,
    metadata: {},
    type: 'card',
  }
}

const BILLING_DETAILS = {
  address: { city: null, country: null, line1: null, line2: null, postal_code: null, state: null },
  email: null,
  name: null,
  phone: null,
  tax_id: null,
}
const CHECKS = { address_line1_check: null, address_postal_code_check: null, cvc_check: 'pass' }

function renderCharge(charge: Charge): Rendered {
  const succeeded = charge.status === 'succeeded'
  return {
    id: charge.id,
    object: 'charge',
    amount: charge.amount,
    amount_captured: charge.amount_captured,
    amount_refunded: charge.amount_refunded,
    application: null,
    application_fee: null,
    application_fee_amount: null,
    balance_transaction: charge.balance_transaction,
    billing_details: BILLING_DETAILS,
    calculated_statement_descriptor: 'SLUICE EMULATOR',
    captured: charge.captured,
    created: charge.created,
    currency: charge.currency,
    customer: charge.customer,
    description: charge.description,
    disputed: charge.disputed,
    failure_balance_transaction: null,
    failure_code: charge.failure?.code ?? null,
    failure_message: charge.failure?.message ?? null,
    fraud_details: {},
    livemode: false,
    metadata: charge.metadata,
    on_behalf_of: null,
    outcome: {
      advice_code: null,
      network_advice_code: null,
      network_decline_code: null,
      network_status: succeeded ? 'approved_by_network' : 'declined_by_network',
      reason: charge.failure?.decline_code ?? charge.failure?.code ?? null,
      risk_level: 'normal',
      risk_score: 20,
      seller_message: succeeded ? 'Payment complete.' : 'The bank declined the payment.',
      type: succeeded ? 'authorized' : 'issuer_declined',
    },
    paid: succeeded,
    payment_intent: charge.payment_intent,
    payment_method: charge.method.id,
    payment_method_details: { card: renderCardDetails(charge), type: 'card' },
    radar_options: {},
    receipt_email: null,
    receipt_number: null,
    receipt_url: null,
    refunded: succeeded && charge.amount_refunded === charge.amount,
    review: null,
    shipping: null,
    source: null,
    source_transfer: null,
    statement_descriptor: null,
    statement_descriptor_suffix: null,
    status: charge.status,
    transfer_data: null,
    transfer_group: null,
  }
}

function renderCardDetails(charge: Charge): Rendered {
  const { brand, last4 } = methodOf(charge.method.token)
  return {
    amount_authorized: charge.status === 'succeeded' ? charge.amount : null,
    authorization_code: null,
    brand,
    ...(charge.capture_before !== null && { capture_before: charge.capture_before }),
    checks: CHECKS,
    country: 'US',
    electronic_commerce_indicator: null,
    exp_month: 12,
    exp_year: 2034,
    extended_authorization: { status: 'disabled' },
    fingerprint: `fp${charge.method.token.length}${last4}`,
    funding: 'credit',
    incremental_authorization: { status: 'unavailable' },
    installments: null,
    last4,
    mandate: null,
    multicapture: { status: 'unavailable' },
    network: brand,
    network_token: { used: false },
    network_transaction_id: null,
    overcapture: { maximum_amount_capturable: charge.amount, status: 'unavailable' },
    regulated_status: 'unregulated',
    three_d_secure: charge.authenticated
      ? {
          authentication_flow: 'challenge',
          electronic_commerce_indicator: '05',
          exemption_indicator: null,
          result: 'authenticated',
          result_reason: null,
          transaction_id: null,
          version: '2.2.0',
        }
      : null,
    transaction_link_id: null,
    wallet: null,
  }
}

function renderRefund(refund: Refund): Rendered {
  return {
    id: refund.id,
    object: 'refund',
    amount: refund.amount,
    balance_transaction: refund.balance_transaction,
    charge: refund.charge,
    created: refund.created,
    currency: refund.currency,
    customer: null,
    customer_account: null,
    destination_details: {
      card: { reference_status: 'pending', reference_type: 'acquirer_reference_number', type: 'refund' },
      type: 'card',
    },
    ...(refund.failure_balance_transaction && {
      failure_balance_transaction: refund.failure_balance_transaction,
    }),
    ...(refund.failure_reason && { failure_reason: refund.failure_reason }),
    metadata: refund.metadata,
    payment_intent: refund.payment_intent,
    payment_method: null,
    ...(refund.status === 'pending' && { pending_reason: 'processing' }),
    reason: refund.reason,
    receipt_number: null,
    source_transfer_reversal: null,
    status: refund.status,
    transfer_reversal: null,
  }
}
