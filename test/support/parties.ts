// The fields of a recipient and a merchant, without idempotency keys.

/** Payouts to this account succeed. */
export const RECIPIENT = {
  name: 'Grace Hopper',
  type: 'account',
  currency: 'usd',
  country: 'US',
  destination: 'acct_success',
} as const

export const MERCHANT = {
  legal_name: 'Analytical Engines Ltd',
  display_name: 'Engines',
  country: 'GB',
  support_email: 'help@engines.example',
} as const
