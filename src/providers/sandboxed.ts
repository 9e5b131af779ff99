// The providers of a tenant in test mode, on its sandbox: the code that calls the providers' servers, with another
// transport.
import type { Config } from '#core/config.ts'
import { AI, PAYMENTS } from '#core/config/providers.ts'
import { openAi } from './ai/client.ts'
import type { FinishedCall } from './http.ts'
import type { SandboxClients } from './sandbox-clients.ts'
import type { StripeOptions } from './stripe/client.ts'
import { stripeIdentity } from './stripe/identity.ts'
import { stripeProcessor } from './stripe/payments.ts'
import { stripePayouts } from './stripe/payouts.ts'
import { stripeTopUps } from './stripe/top-ups.ts'

/** The sandbox of a tenant is its only account, and accepts any key. */
const SECRET_KEY = 'sk_test_sandbox'
/** Reserved by RFC 2606: nothing is sent there. */
const ADDRESS = 'http://sandbox.invalid'

/** Functions that open the provider of each role. */
export function sandboxedProviders(
  config: Config,
  { processor: http, ai, email, sms }: SandboxClients,
  onCall: (provider: string, call: FinishedCall) => void,
) {
  const of_stripe: StripeOptions = {
    secret_key: SECRET_KEY,
    api_base: ADDRESS,
    http,
    onCall: (call) => onCall(PAYMENTS.provider, call),
  }
  return {
    processor: () => stripeProcessor(of_stripe),
    payouts: () => stripePayouts(of_stripe),
    top_ups: () => stripeTopUps(of_stripe),
    identity: () => stripeIdentity(of_stripe),
    ai: () =>
      openAi({
        base_url: ADDRESS,
        api_key: SECRET_KEY,
        model: config.AI_MODEL,
        max_tokens_field: config.AI_MAX_TOKENS_FIELD,
        http: ai,
        onCall: (call) => onCall(AI.provider, call),
      }),
    email: () => email,
    sms: () => sms,
  }
}
