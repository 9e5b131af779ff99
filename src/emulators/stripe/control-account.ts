// The control of the account.
import { renderAccount } from '#providers/sandbox/stripe/account.ts'
import { textOf } from '../shared/controls.ts'
import type { StripeControl } from './control-parts.ts'

export const ACCOUNT_CONTROLS: Record<string, StripeControl> = {
  // Rolls the API key, and optionally switches to another account. The previous key is refused afterwards, unless it is
  // among several, separated by commas.
  'POST account': ({ engine }, _id, body) => {
    engine.api_key = textOf(body, 'api_key') ?? engine.api_key
    engine.account = textOf(body, 'id') ?? engine.account
    return renderAccount(engine)
  },
}
