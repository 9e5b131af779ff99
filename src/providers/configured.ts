// The providers as a process is configured to use them.
import { need, type Config } from '#core/config.ts'
import type { Outcome } from '#core/outcome.ts'
import type { PaymentProcessor } from './payments.ts'
import { stripeProcessor } from './stripe/payments.ts'

/** The processor of payments; `onCall` hears of each call that has ended. */
export function openProcessor(
  config: Config,
  onCall: (call: { operation: string; outcome: Outcome<unknown>['kind']; duration_ms: number }) => void,
): PaymentProcessor & { close(): Promise<void> } {
  return stripeProcessor({
    secret_key: need(config, 'STRIPE_SECRET_KEY'),
    api_base: config.STRIPE_API_BASE ?? null,
    onCall,
  })
}
