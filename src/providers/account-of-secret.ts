// Finds the provider account of a new value of a secret.
import type { Config } from '#core/config.ts'
import type { VariableName } from '#core/config/variables.ts'
import type { Outcome } from '#core/outcome.ts'
import { stripeProcessor } from './stripe/payments.ts'

/**
 * The account of the value of a secret, and the fingerprint that calls with it have; null if the secret is not the key
 * of an account.
 */
export async function findAccountOfSecret(
  config: Config,
  name: VariableName,
  value: string,
): Promise<{ provider: string; livemode: boolean; fingerprint: string; account: Outcome<string> } | null> {
  const livemode = name === 'STRIPE_SECRET_KEY'
  if (!livemode && name !== 'STRIPE_TEST_SECRET_KEY') return null
  const api_base = livemode ? config.STRIPE_API_BASE : config.STRIPE_TEST_API_BASE
  const opened = stripeProcessor({ secret_key: value, api_base: api_base ?? null })
  try {
    const { name: provider, credentials: fingerprint } = opened
    return { provider, livemode, fingerprint, account: await opened.findAccount() }
  } finally {
    await opened.close()
  }
}
