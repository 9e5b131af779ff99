// Validates the parameters of payment intents.
import { maxPaymentMinor } from '#core/money.ts'
import { formatMoney, minAmountOf, refuseFraction } from './currencies.ts'
import { resourceMissing, parameterRefused } from './errors.ts'
import { stripeId } from './ids.ts'
import { findMethod } from './methods.ts'
import { booleanOf, oneOf, required, stringOf } from './params.ts'
import { isParams, type Params } from './parse.ts'
import { boolean, checkParams, enumeration, exclusive, parameters } from './rules.ts'
import type { Intent, Method } from './versions.ts'

/** Parameters that "can only be used with confirm=true" (`PaymentIntentCreateParams`). */
const CONFIRM_ONLY_PARAMS = [
  'error_on_requires_action',
  'mandate',
  'mandate_data',
  'off_session',
  'return_url',
]

const AUTOMATIC_METHODS = parameters('allow_redirects enabled', {
  allow_redirects: enumeration('always', 'never'),
  enabled: boolean,
})

/** Refuses combinations of parameters that Stripe does not allow. */
export function checkExclusiveParams(params: Params): void {
  exclusive(params, 'customer', 'customer_account')
  if (booleanOf(params, 'confirm')) {
    // All payment methods of the engine are cards, for which Stripe refuses this parameter.
    if (params['statement_descriptor'] !== undefined)
      throw parameterRefused(
        'The statement descriptor of a card charge is set with `statement_descriptor_suffix`.',
        'statement_descriptor',
      )
    return
  }
  for (const name of CONFIRM_ONLY_PARAMS)
    if (params[name] !== undefined)
      throw parameterRefused(`\`${name}\` can only be passed when \`confirm\` is true.`, name)
}

/** Returns the amount. Throws Refusal if it is below the minimum, above the maximum or finer than Stripe settles. */
export function checkedAmount(amount: number, currency: string): number {
  const min = minAmountOf(currency)
  if (amount < min)
    throw parameterRefused(
      `Amount must be at least ${formatMoney(min, currency)} ${currency}`,
      'amount',
      'amount_too_small',
    )
  if (amount > maxPaymentMinor(currency)) {
    throw parameterRefused(
      `Amount must be no more than ${formatMoney(maxPaymentMinor(currency), currency)}`,
      'amount',
      'amount_too_large',
    )
  }
  refuseFraction(amount, currency, 'amount')
  return amount
}

/** The payment method of the parameters. Each use of a test token creates a payment method. */
export function methodOfParams(params: Params): Method | null {
  const token = stringOf(params, 'payment_method')
  if (token === null) return null
  if (!findMethod(token)) throw resourceMissing(400, 'PaymentMethod', token, 'payment_method')
  return { id: stripeId('pm_1'), token }
}

/** Reads `automatic_payment_methods`. Default: enabled with redirects, as at Stripe. */
export function automaticOf(params: Params): Intent['automatic'] {
  const value = params['automatic_payment_methods']
  // The parameter rules accept only a hash here.
  if (value === undefined || !isParams(value)) return { enabled: true, allow_redirects: 'always' }
  checkParams(value, AUTOMATIC_METHODS)
  required(stringOf(value, 'enabled'), 'automatic_payment_methods[enabled]')
  const enabled = booleanOf(value, 'enabled')
  return { enabled, allow_redirects: oneOf(value, 'allow_redirects', ['always', 'never']) ?? 'always' }
}

/** Refuses a missing `return_url` if a method may redirect. */
export function checkReturnUrl(intent: Intent): void {
  if (
    intent.return_url !== null ||
    !intent.automatic?.enabled ||
    intent.automatic.allow_redirects === 'never'
  )
    return
  const message =
    'This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`. ' +
    "If you don't want to accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and `automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents."
  throw parameterRefused(message, undefined)
}
