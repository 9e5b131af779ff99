// Who does for us what we do not do ourselves, and what things are called there. Beside a provider's own files nothing else names it.

export const PAYMENTS = {
  provider: 'stripe',
  /** What payments and refunds are called there. */
  reference: /^(pi|re|pyr)_\w+$/,
  /** What the documentation shows. */
  examples: {
    payment: 'pi_3SV0Zw2eZvKYlo2C0aBcDeFg',
    refund: 're_3SV0Zw2eZvKYlo2C0aBcDeFg',
    payment_method: 'pm_card_visa',
    payment_method_that_authenticates: 'pm_card_authenticationRequired',
    kind: 'payment_intent.succeeded',
  },
} as const
