// The providers as a process is configured to use them.
import { need, type Config } from '#core/config.ts'
import type { Json } from '#core/db.ts'
import type { EndedCall } from './http.ts'
import type { News } from './news.ts'
import { stripeIdentity } from './stripe/identity.ts'
import { newsOf } from './stripe/news.ts'
import { stripeProcessor } from './stripe/payments.ts'
import { stripePayouts } from './stripe/payouts.ts'
import { stripeTopUps } from './stripe/top-ups.ts'

/** Every provider, by what it is to us; `onCall` hears of each call to one that has ended. */
export function openProviders(config: Config, onCall: (provider: string, call: EndedCall) => void) {
  const stripe = {
    secret_key: need(config, 'STRIPE_SECRET_KEY'),
    api_base: config.STRIPE_API_BASE ?? null,
    onCall: (call: EndedCall) => onCall('stripe', call),
  }
  return {
    processor: stripeProcessor(stripe),
    payouts: stripePayouts(stripe),
    top_ups: stripeTopUps(stripe),
    identity: stripeIdentity(stripe),
  }
}

/** What handlers and recurring work ask. */
export type Providers = Readonly<ReturnType<typeof openProviders>>

/**
 * What reads the stored events of each provider that notifies us, by the provider's name: null when an event is about
 * an object that we do not keep.
 */
export const EVENT_READERS: Readonly<Record<string, (payload: Json) => News | null>> = { stripe: newsOf }
