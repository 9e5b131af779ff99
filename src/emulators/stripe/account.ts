// The account that the secret key belongs to.
import { textOf } from '../shared/controls.ts'
import type { StripeControl } from './control-parts.ts'
import type { Emulator } from './emulator.ts'
import type { Rendered } from './rendered.ts'
import type { Routes } from './route.ts'
import { parameters } from './rules.ts'

export const ACCOUNT = 'acct_1SluiceEmulator'

/** A subset of Stripe's fields. */
function renderAccount({ account }: Emulator): Rendered {
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

export const ACCOUNT_CONTROLS: Record<string, StripeControl> = {
  // Rolls the API key, and optionally switches to another account. The previous key is refused afterwards, unless it is
  // among several, separated by commas.
  'POST account': (emulator, _id, body) => {
    emulator.api_key = textOf(body, 'api_key') ?? emulator.api_key
    emulator.account = textOf(body, 'id') ?? emulator.account
    return renderAccount(emulator)
  },
}
