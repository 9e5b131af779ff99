// Money: ISO 4217 codes, and amounts in a currency's smallest unit.
import { z } from 'zod'

/** The processor's presentment currencies, for payments and payouts. */
export const SUPPORTED_CURRENCIES = (
  'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF CLP CNY ' +
  'COP CRC CVE CZK DJF DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR ISK ' +
  'JMD JOD JPY KES KGS KHR KMF KRW KWD KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MUR MVR MWK MXN MYR ' +
  'MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SEK SGD SHP SLE SOS ' +
  'SRD SZL THB TJS TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW'
).split(' ')
const UNSUPPORTED_CURRENCIES =
  'BTN CUP ERN GHS IQD IRR KPW LYD MRU SDG SSP STN SVC SYP TMT VED VES ZWG'.split(' ')
const SUPPORTED = new Set(SUPPORTED_CURRENCIES)
const CODES = new Set([...SUPPORTED, ...UNSUPPORTED_CURRENCIES].toSorted())
const ZERO_DECIMALS = new Set('BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF'.split(' '))
const THREE_DECIMALS = new Set('BHD IQD JOD KWD LYD OMR TND'.split(' '))

/**
 * The number of decimals of each currency, by code, as the processor counts them. Browsers differ: they write HUF,
 * ISK and UGX without decimals.
 */
export const DECIMALS: Readonly<Record<string, number>> = Object.fromEntries(
  Array.from(CODES, (code) => [code, ZERO_DECIMALS.has(code) ? 0 : THREE_DECIMALS.has(code) ? 3 : 2]),
)

/** The use of an amount. `payment`: payments, captures, refunds and top-ups; `payout`: payouts to recipients. */
export type AmountUse = 'payment' | 'payout'

const stepsOf = (whole: string): Readonly<Record<string, number>> => ({
  ...Object.fromEntries(Array.from(THREE_DECIMALS, (code) => [code, 10])),
  ...Object.fromEntries(whole.split(' ').map((code) => [code, 100])),
})

/**
 * The smallest step that the processor settles, by use and code; other currencies are settled to the smallest unit.
 * Currencies with three decimals are settled in tens. ISK and UGX have two decimals formally but are settled in whole
 * units; payouts in HUF and TWD are settled in whole units too.
 */
export const STEPS = {
  payment: stepsOf('ISK UGX'),
  payout: stepsOf('HUF ISK TWD UGX'),
} satisfies Record<AmountUse, Readonly<Record<string, number>>>

/** The settlement step. `currency`: in upper or lower case. */
export function settlementStep(currency: string, use: AmountUse = 'payment'): number {
  return STEPS[use][currency.toUpperCase()] ?? 1
}

/** Whether the processor settles an amount exactly. `currency`: in upper or lower case. */
export function settlesExactly(amount_minor: number, currency: string, use: AmountUse = 'payment'): boolean {
  return amount_minor % settlementStep(currency, use) === 0
}

/**
 * Adds `inexact_currencies` to a request: the currencies, in upper case, in which the processor cannot settle the
 * amount exactly. An amount of null means the whole amount, which is always exact.
 */
export function withInexactCurrencies<T extends { amount_minor: number | null }>(
  request: T,
): T & { inexact_currencies: string[] } {
  const amount_minor = request.amount_minor ?? 0
  const inexact_currencies = Object.keys(STEPS.payment).filter((code) => !settlesExactly(amount_minor, code))
  return { ...request, inexact_currencies }
}

/** An amount for texts: `710000, usd` is `USD 7,100.00`. */
export function moneyText(amount_minor: number, currency: string): string {
  const [whole, ...fraction] = decimalText(amount_minor, decimalsOf(currency)).split('.')
  const grouped = whole!.replaceAll(/\B(?=(?:\d{3})+$)/g, ',')
  return `${currency.toUpperCase()} ${[grouped, ...fraction].join('.')}`
}

/** A safe integer with a decimal point: `7100, 2` is `71.00`. Exact, unlike a division. */
export function decimalText(amount_minor: number, decimals: number): `${number}` {
  const digits = String(Math.abs(amount_minor)).padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = decimals === 0 ? '' : `.${digits.slice(-decimals)}`
  return `${amount_minor < 0 ? '-' : ''}${whole}${fraction}` as `${number}`
}

/** The decimals of a currency. `currency`: in upper or lower case. */
export function decimalsOf(currency: string): number {
  return DECIMALS[currency.toUpperCase()] ?? 2
}

/** The maximum of a top-up, above any account's limit, so that it only catches mistakes. */
export const MAX_AMOUNT_MINOR = 999_999_999_999

/**
 * The largest payment of the processor, in the smallest unit: eight digits, twelve for IDR (docs: "Minimum and
 * maximum charge amounts"). `currency`: in upper or lower case.
 */
export function maxPaymentMinor(currency: string): number {
  return currency.toUpperCase() === 'IDR' ? MAX_AMOUNT_MINOR : 99_999_999
}

/** Whether the processor supports the currency. `currency`: in upper or lower case. */
export function isSupportedCurrency(currency: string): boolean {
  return SUPPORTED.has(currency.toUpperCase())
}

/** A positive safe integer in the currency's smallest unit. */
export const amountMinor = z
  .int()
  .positive()
  .meta({ description: 'Amount in the smallest unit of the currency: 1000 is ten dollars.', example: 1000 })

/** An ISO 4217 code, in upper or lower case. */
export const currencyCode = z
  .string()
  .refine((code) => /^[A-Za-z]{3}$/.test(code) && CODES.has(code.toUpperCase()), {
    error: 'must be an ISO 4217 currency code',
    abort: true,
  })
  .meta({
    description: 'ISO 4217 currency code.',
    minLength: 3,
    maxLength: 3,
    example: 'USD',
  })

/** The supported currencies, for descriptions. */
export const SUPPORTED_CURRENCIES_TEXT = `ISO 4217 currency code. The processor supports all except ${UNSUPPORTED_CURRENCIES.join(', ')}.`

/** A currency for request bodies. Stored or filtered currencies may be any code. */
export const supportedCurrency = currencyCode
  .refine(isSupportedCurrency, { error: 'must be a currency that the processor supports' })
  .meta({
    id: undefined,
    description: SUPPORTED_CURRENCIES_TEXT,
    minLength: 3,
    maxLength: 3,
    example: 'USD',
  })

/** `currencyCode` in lower case, for balances. */
export const lowerCurrency = currencyCode.meta({
  id: undefined,
  description: 'ISO 4217 currency code, in lower case.',
  minLength: 3,
  maxLength: 3,
  example: 'usd',
})
