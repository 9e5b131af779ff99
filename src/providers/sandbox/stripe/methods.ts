// Stripe's test payment methods and their behavior.

export type TestMethod = {
  brand: string
  last4: string
  /** The decline by the card's bank. */
  decline?: Decline
  /** The card requires authentication. An off-session payment is declined. */
  authenticates?: true
  /** Behavior of refunds. Both are settled by the host (`settleRefund`). */
  refund?: 'pending' | 'succeeded_then_failed'
  /** The dispute that opens soon after the capture. An inquiry withdraws no money. */
  dispute?: 'chargeback' | 'inquiry'
}
export type Decline = { code: string; decline_code?: string; message: string }

const DECLINED = 'Your card was declined.'
const visa = { brand: 'visa', last4: '4242' }

export const AUTHENTICATION_REQUIRED: Decline = {
  code: 'authentication_required',
  decline_code: 'authentication_required',
  message: 'Your card was declined. This transaction requires authentication.',
}

const METHODS = new Map<string, TestMethod>([
  ['pm_card_visa', visa],
  ['pm_card_us', visa],
  ['pm_card_visa_debit', { brand: 'visa', last4: '5556' }],
  ['pm_card_mastercard', { brand: 'mastercard', last4: '4444' }],
  ['pm_card_amex', { brand: 'amex', last4: '8431' }],
  ['pm_card_discover', { brand: 'discover', last4: '9424' }],
  ['pm_card_bypassPending', { brand: 'visa', last4: '0077' }],
  ['pm_card_chargeDeclined', declined('0002', 'card_declined', 'generic_decline')],
  ['pm_card_visa_chargeDeclined', declined('0002', 'card_declined', 'generic_decline')],
  [
    'pm_card_chargeDeclinedInsufficientFunds',
    declined('9995', 'card_declined', 'insufficient_funds', 'Your card has insufficient funds.'),
  ],
  [
    'pm_card_visa_chargeDeclinedInsufficientFunds',
    declined('9995', 'card_declined', 'insufficient_funds', 'Your card has insufficient funds.'),
  ],
  ['pm_card_visa_chargeDeclinedLostCard', declined('9987', 'card_declined', 'lost_card')],
  ['pm_card_visa_chargeDeclinedStolenCard', declined('9979', 'card_declined', 'stolen_card')],
  [
    'pm_card_visa_chargeDeclinedVelocityLimitExceeded',
    declined('6975', 'card_declined', 'card_velocity_exceeded'),
  ],
  ['pm_card_chargeDeclinedFraudulent', declined('0019', 'card_declined', 'fraudulent')],
  [
    'pm_card_chargeDeclinedExpiredCard',
    declined('0069', 'expired_card', undefined, 'Your card has expired.'),
  ],
  [
    'pm_card_chargeDeclinedIncorrectCvc',
    declined('0127', 'incorrect_cvc', undefined, "Your card's security code is incorrect."),
  ],
  [
    'pm_card_chargeDeclinedProcessingError',
    declined(
      '0119',
      'processing_error',
      undefined,
      'An error occurred while processing your card. Try again in a little bit.',
    ),
  ],
  ['pm_card_authenticationRequired', { brand: 'visa', last4: '3184', authenticates: true }],
  ['pm_card_threeDSecure2Required', { brand: 'visa', last4: '3220', authenticates: true }],
  ['pm_card_threeDSecureRequired', { brand: 'visa', last4: '3063', authenticates: true }],
  ['pm_card_refundFail', { brand: 'visa', last4: '5126', refund: 'succeeded_then_failed' }],
  ['pm_card_pendingRefund', { brand: 'visa', last4: '7726', refund: 'pending' }],
  ['pm_card_createDispute', { brand: 'visa', last4: '0259', dispute: 'chargeback' }],
  ['pm_card_createDisputeInquiry', { brand: 'visa', last4: '1976', dispute: 'inquiry' }],
])

/** All test tokens. */
export const METHOD_TOKENS = [...METHODS.keys()]

export function findMethod(token: string): TestMethod | undefined {
  return METHODS.get(token)
}

/** The test method of a valid token. */
export function methodOf(token: string): TestMethod {
  return METHODS.get(token) ?? visa
}

function declined(last4: string, code: string, decline_code?: string, message = DECLINED): TestMethod {
  return { brand: 'visa', last4, decline: { code, message, ...(decline_code && { decline_code }) } }
}
