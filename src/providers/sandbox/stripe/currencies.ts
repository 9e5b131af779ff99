// Stripe's currencies (docs: "Supported currencies"; the table is in core/money.ts), minimum amounts, and money in
// messages.
import {
  decimalsOf,
  isSupportedCurrency,
  settlementStep,
  SUPPORTED_CURRENCIES,
  type AmountUse,
} from '#core/money.ts'
import { parameterRefused } from './errors.ts'

// Withdrawn ISO codes that Stripe still lists.
const WITHDRAWN = ['ang', 'mro', 'sll', 'std']
const MIN_AMOUNTS: Record<string, number> = {
  usd: 50,
  eur: 50,
  gbp: 30,
  jpy: 50,
  aud: 50,
  cad: 50,
  chf: 50,
  nzd: 50,
  sgd: 50,
  brl: 50,
  inr: 50,
  aed: 200,
  bgn: 100,
  czk: 1500,
  dkk: 250,
  hkd: 400,
  huf: 17_500,
  mxn: 1000,
  myr: 200,
  nok: 300,
  pln: 200,
  ron: 200,
  sek: 300,
  thb: 1000,
}
const SIGNS: Record<string, string> = { usd: '$', eur: '€', gbp: '£', jpy: '¥' }

export function isCurrency(code: string): boolean {
  return code === code.toLowerCase() && (isSupportedCurrency(code) || WITHDRAWN.includes(code))
}

export function supportedCurrencies(): string {
  return [...SUPPORTED_CURRENCIES.map((code) => code.toLowerCase()), ...WITHDRAWN].join(', ')
}

/** Minimum amount of a payment, in the smallest unit. */
export function minAmountOf(currency: string): number {
  return MIN_AMOUNTS[currency] ?? 50
}

/** An amount as Stripe's messages show it: `$25.00` for 2500 and `usd`. */
export function formatMoney(amount: number, currency: string): string {
  const decimals = decimalsOf(currency)
  const number = (amount / 10 ** decimals).toLocaleString('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  })
  return SIGNS[currency] ? `${SIGNS[currency]}${number}` : `${number} ${currency.toUpperCase()}`
}

/** Refuses an amount with more decimals than Stripe settles (docs: "Three-decimal currencies", "Special cases"). */
export function refuseFraction(
  amount: number,
  currency: string,
  param: string,
  use: AmountUse = 'payment',
): void {
  const step = settlementStep(currency, use)
  if (amount % step !== 0)
    throw parameterRefused(
      `Invalid amount: amounts in ${currency} must be evenly divisible by ${step}.`,
      param,
      'parameter_invalid_integer',
    )
}
