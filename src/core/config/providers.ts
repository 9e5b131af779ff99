// Which providers are used, by the queues whose jobs call them, and how their ids look. Apart from a provider's own files, no
// other file names it.

export const PAYMENTS = {
  provider: 'stripe',
  queues: ['payments', 'notifications'],
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

/** Any server that speaks OpenAI's API. */
export const AI = {
  provider: 'ai',
  queues: ['ai'],
  /** The variables without which there is none. */
  credentials: ['AI_BASE_URL', 'AI_API_KEY'],
} as const
