// The providers, the queues whose jobs call them, and the form of their ids. Except for this file, only a provider's
// own files may name the provider.

export const PAYMENTS = {
  provider: 'stripe',
  queues: ['payments', 'notifications'],
  /** The form of the provider's ids of payments and refunds. */
  reference: /^(pi|re|pyr)_\w+$/,
  /** Example values for the documentation. */
  examples: {
    payment: 'pi_3SV0Zw2eZvKYlo2C0aBcDeFg',
    refund: 're_3SV0Zw2eZvKYlo2C0aBcDeFg',
    dispute: 'du_1SV0Zw2eZvKYlo2C0aBcDeFg',
    payment_method: 'pm_card_visa',
    payment_method_that_authenticates: 'pm_card_authenticationRequired',
    kind: 'payment_intent.succeeded',
  },
} as const

/** The provider of payouts, with the same fields as PAYMENTS. */
export const PAYOUTS = {
  provider: PAYMENTS.provider,
  queues: ['payouts', 'notifications'],
  /** The form of the provider's ids of payouts and transfers. */
  reference: /^(po|tr)_\w+$/,
  examples: { payout: 'po_1SV0Zw2eZvKYlo2C0aBcDeFg' },
} as const

/** The prefixes of the provider's tokens for payout destinations, by the type of the recipient. */
export const DESTINATIONS = { bank_account: 'ba_', card: 'card_', account: 'acct_' } as const

/** The provider of top-ups, with the same fields as PAYMENTS. */
export const TOP_UPS = {
  provider: PAYMENTS.provider,
  queues: PAYMENTS.queues,
  reference: /^tu_\w+$/,
  examples: { top_up: 'tu_1SV0Zw2eZvKYlo2C0aBcDeFg', source: 'src_success' },
} as const

/** The provider of verifications, with the same fields as PAYMENTS. */
export const IDENTITY = {
  provider: PAYMENTS.provider,
  queues: ['compliance', 'notifications'],
  reference: /^vs_\w+$/,
  examples: {
    session: 'vs_1SV0Zw2eZvKYlo2C0aBcDeFg',
    url: 'https://verify.stripe.com/start/live_aBcDeFg',
  },
} as const

/** The queues whose jobs call the payment processor. */
export const PROCESSOR_QUEUES = [PAYMENTS, PAYOUTS, TOP_UPS, IDENTITY].flatMap(({ queues }) => queues)

/** The provider of AI tasks: any server with OpenAI's API. */
export const AI = {
  provider: 'ai',
  queues: ['ai'],
  /** The variables without which no AI task is performed. */
  credentials: ['AI_BASE_URL', 'AI_API_KEY'],
} as const

/** The provider of email: any SMTP server. */
export const EMAIL = {
  provider: 'smtp',
  queues: ['messages'],
  /** The variables without which no email is sent. */
  credentials: ['SMTP_URL', 'EMAIL_FROM'],
  /** The form of our Message-IDs. */
  reference: /^<[^<>\s@]+@[^<>\s@]+>$/,
  examples: { email: '<0198f6f6-2b1d-7000-8000-123456789abc@shop.example>' },
} as const

/** The SMS provider. */
export const SMS = {
  provider: 'twilio',
  queues: ['messages', 'notifications'],
  /** The variables without which no SMS is sent. */
  credentials: ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN', 'TWILIO_FROM'],
  /** The form of the provider's ids of messages. */
  reference: /^(SM|MM)[0-9a-f]{32}$/,
  examples: { sms: 'SM0123456789abcdef0123456789abcdef' },
} as const

/** The senders of tenants in test mode where none is configured. */
export const SANDBOX_SENDERS = { email: 'test@sandbox.invalid', sms: '+15005550006' } as const

type ProviderFacts = {
  /** The name of the provider in texts for people. */
  title: string
  /** The variables to check: `credentials` if the provider refuses our credentials, `address` if it does not answer. */
  check: Record<'credentials' | 'address', readonly string[]>
}

/**
 * The name under which everything is kept that belongs to a provider and to no tenant, such as its accounts and
 * outages. Test mode has an account of its own: its calls neither count for live ones nor prove anything about them.
 */
export function providerKey(provider: string, livemode: boolean): string {
  return livemode ? provider : `${provider}${TEST_SUFFIX}`
}

/** Ends the keys of providers in test mode, and the names of the recurring work that reads their lists. */
export const TEST_SUFFIX = ' test'

/** The variable with the key of a provider's test account, by the provider's name. Other providers have none. */
export const TEST_KEYS = { [PAYMENTS.provider]: 'STRIPE_TEST_SECRET_KEY' } as const

/** Whether the sandbox is the processor of test mode; otherwise a test account of the processor is. */
export function hasSandboxProcessor(
  config: Partial<Record<(typeof TEST_KEYS)[keyof typeof TEST_KEYS], unknown>>,
): boolean {
  return config[TEST_KEYS[PAYMENTS.provider]] === undefined
}

/** The facts about each provider for operators, by its key. */
export const PROVIDER_FACTS: Readonly<Record<string, ProviderFacts>> = {
  [PAYMENTS.provider]: {
    title: 'Stripe',
    check: { credentials: ['STRIPE_SECRET_KEY'], address: ['STRIPE_API_BASE'] },
  },
  [providerKey(PAYMENTS.provider, false)]: {
    title: 'Stripe in test mode',
    check: { credentials: ['STRIPE_TEST_SECRET_KEY'], address: ['STRIPE_TEST_API_BASE'] },
  },
  [SMS.provider]: {
    title: 'Twilio',
    check: { credentials: ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN'], address: ['TWILIO_API_BASE'] },
  },
  [EMAIL.provider]: {
    title: 'The email server',
    check: { credentials: ['SMTP_URL'], address: ['SMTP_URL'] },
  },
  [AI.provider]: {
    title: 'The AI provider',
    check: { credentials: ['AI_API_KEY'], address: ['AI_BASE_URL'] },
  },
}

/** The operations of the providers' clients, as texts for people. */
const OPERATION_TITLES = {
  authorize: 'authorizations',
  capture: 'captures',
  cancel: 'cancellations of payments',
  refund: 'refunds',
  payout: 'payouts',
  cancel_payout: 'cancellations of payouts',
  top_up: 'top-ups',
  verify: 'verifications',
  cancel_verification: 'cancellations of verifications',
  send_email: 'emails',
  send_sms: 'SMS',
  complete: 'AI tasks',
  list: 'the list of models',
  find_payment: 'lookups of payments',
  search_payment: 'searches for payments',
  list_payments: 'lists of payments',
  find_refund: 'lookups of refunds',
  search_refund: 'searches for refunds',
  find_dispute: 'lookups of disputes',
  find_payout: 'lookups of payouts',
  search_payout: 'searches for payouts',
  find_top_up: 'lookups of top-ups',
  search_top_up: 'searches for top-ups',
  find_verification: 'lookups of verifications',
  search_verification: 'searches for verifications',
  find_sms: 'lookups of SMS',
  search_sms: 'searches for SMS',
  list_received_sms: 'lists of received SMS',
  list_events: 'lists of events',
  list_objects: 'lists of objects',
} as const
export type ProviderOperation = keyof typeof OPERATION_TITLES

/** The operations of jobs' calls that a provider's client performs under another name. */
const DUPLICATE_OPERATIONS = {
  cancel_duplicate: 'cancel',
  cancel_duplicate_verification: 'cancel_verification',
} as const satisfies Record<string, ProviderOperation>
const CLIENT_OPERATIONS = new Map<string, ProviderOperation>(Object.entries(DUPLICATE_OPERATIONS))
export type CallOperation = ProviderOperation | keyof typeof DUPLICATE_OPERATIONS

/** The text for an operation. An operation of another version is its own text. */
export function operationTitle(operation: string): string {
  return Object.hasOwn(OPERATION_TITLES, operation)
    ? OPERATION_TITLES[operation as ProviderOperation]
    : operation
}

/** The operation of a provider's client that performs a job's call: a duplicate is canceled like any other object. */
export function clientOperation(operation: string): string {
  return CLIENT_OPERATIONS.get(operation) ?? operation
}
