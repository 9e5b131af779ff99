// The account that the secret key belongs to.
import type { Engine } from './engine.ts'
import type { Rendered } from './rendered.ts'
import type { Routes } from './route.ts'
import { parameters } from './rules.ts'

/** Whether the events are those of a live account: the first key says so. Objects always say test mode. */
export function isLiveAccount({ api_key }: Engine): boolean {
  return /^(?:sk|rk)_live_/.test(api_key ?? '')
}

/** A subset of Stripe's fields. */
export function renderAccount({ account }: Engine): Rendered {
  return {
    id: account,
    object: 'account',
    type: 'standard',
    country: 'US',
    default_currency: 'usd',
    email: null,
    charges_enabled: true,
    details_submitted: true,
    payouts_enabled: true,
    metadata: {},
  }
}

export const ACCOUNT_ROUTES: Routes = {
  'GET account': { object: null, accepts: parameters('expand'), rendered: renderAccount },
}
