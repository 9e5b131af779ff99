// The curl commands that empty lists show: they create the first row.
import type {
  CreateAiTask,
  CreateCustomer,
  CreateMerchant,
  CreateMessageTemplate,
  CreatePayment,
  CreatePayout,
  CreateRecipient,
  CreateRefund,
  CreateTopUp,
  CreateVerification,
  CreateWebhookEndpoint,
  SendEmail,
} from '#sdk/index.ts'
import type { WebSession } from '../session.tsx'

/** The request body of each path. */
type RequestBodies = {
  '/v1/ai/tasks': CreateAiTask
  '/v1/compliance/kyc': CreateVerification
  '/v1/customers': CreateCustomer
  '/v1/merchants': CreateMerchant
  '/v1/messages/email': SendEmail
  '/v1/messages/templates': CreateMessageTemplate
  '/v1/payments': CreatePayment
  '/v1/payments/PAYMENT_ID/refunds': CreateRefund
  '/v1/payouts': CreatePayout
  '/v1/recipients': CreateRecipient
  '/v1/wallet/top_ups': CreateTopUp
  '/v1/webhook_endpoints': CreateWebhookEndpoint
}

/** A command with the base URL of the session's installation. */
export type Curl = (session: WebSession) => string

/** A curl command that posts `body` to a path of the API. */
export function curlOf<Path extends keyof RequestBodies>(path: Path, body: RequestBodies[Path]): Curl {
  return ({ api_url }) =>
    [
      `curl ${api_url}${path} \\`,
      `  -H "Authorization: Bearer $SLUICE_API_KEY" \\`,
      `  -H "Content-Type: application/json" \\`,
      `  -d '${JSON.stringify(body)}'`,
    ].join('\n')
}

export const FIRST_CUSTOMER: CreateCustomer = {
  idempotency_key: 'dashboard-customer-1',
  email: 'ada@example.com',
}
const FIRST_PAYMENT: CreatePayment = {
  idempotency_key: 'dashboard-payment-1',
  amount_minor: 4000,
  currency: 'usd',
  method: 'card',
}

/**
 * A curl command that creates a payment. If the processor is emulated, the payment has a card that the emulator
 * accepts, so that the payment can be captured.
 */
export function firstPaymentCurl(more: Partial<CreatePayment> = {}): Curl {
  return (session) => {
    const { payment_method_to_try: payment_method } = session
    const card = payment_method === null ? {} : { payment_method }
    return curlOf('/v1/payments', { ...FIRST_PAYMENT, ...card, ...more })(session)
  }
}

export const FIRST_TOP_UP: CreateTopUp = {
  idempotency_key: 'dashboard-top-up-1',
  amount_minor: 10_000,
  currency: 'usd',
  source: 'src_success',
}
