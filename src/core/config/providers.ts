// Which provider is used for payments, and how its ids look. Apart from a provider's own files, no other file names it.

export const PAYMENTS = {
  provider: 'stripe',
  /** The form of its ids of payments and refunds. */
  reference: /^(pi|re|pyr)_\w+$/,
  /** For the documentation. */
  examples: {
    payment: 'pi_3SV0Zw2eZvKYlo2C0aBcDeFg',
    refund: 're_3SV0Zw2eZvKYlo2C0aBcDeFg',
    payment_method: 'pm_card_visa',
    payment_method_that_authenticates: 'pm_card_authenticationRequired',
    kind: 'payment_intent.succeeded',
  },
} as const

/** The same of top-ups. */
export const TOP_UPS = {
  provider: PAYMENTS.provider,
  reference: /^tu_\w+$/,
  examples: { top_up: 'tu_1SV0Zw2eZvKYlo2C0aBcDeFg', source: 'src_success' },
} as const
