// Money: ISO 4217 codes and amounts in a currency's smallest unit.
import { z } from 'zod'

const CODES = new Set(
  (
    'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF ' +
    'CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL ' +
    'HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD ' +
    'MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG ' +
    'QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD ' +
    'TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG'
  ).split(' '),
)
const ZERO_DECIMALS = new Set('BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF'.split(' '))
const THREE_DECIMALS = new Set('BHD IQD JOD KWD LYD OMR TND'.split(' '))

/**
 * How many decimals an amount in the smallest unit has, by code: as the processor counts them. What browsers know of a
 * currency differs: they write HUF, ISK and UGX without any.
 */
export const DECIMALS: Readonly<Record<string, number>> = Object.fromEntries(
  Array.from(CODES, (code) => [code, ZERO_DECIMALS.has(code) ? 0 : THREE_DECIMALS.has(code) ? 3 : 2]),
)

/**
 * What an amount is for. `payment`: payments, captures, refunds and top-ups; `payout`: money that leaves to a recipient.
 */
export type AmountUse = 'payment' | 'payout'

const stepsOf = (whole: string): Readonly<Record<string, number>> => ({
  ...Object.fromEntries(Array.from(THREE_DECIMALS, (code) => [code, 10])),
  ...Object.fromEntries(whole.split(' ').map((code) => [code, 100])),
})

/**
 * The smallest unit that the processor settles, by use and code; every other currency is settled to its smallest unit.
 * Three decimals are settled in tens. ISK and UGX have two decimals in form and none in fact; of payouts HUF and TWD too.
 */
export const STEPS = {
  payment: stepsOf('ISK UGX'),
  payout: stepsOf('HUF ISK TWD UGX'),
} satisfies Record<AmountUse, Readonly<Record<string, number>>>

/** `currency`: in any case. */
export function settlementStep(currency: string, use: AmountUse = 'payment'): number {
  return STEPS[use][currency.toUpperCase()] ?? 1
}

/** Whether the processor settles an amount to its last digit. `currency`: in any case. */
export function settlesExactly(amount_minor: number, currency: string, use: AmountUse = 'payment'): boolean {
  return amount_minor % settlementStep(currency, use) === 0
}

/** The currencies, in upper case, in which the processor cannot settle this amount to its last digit. */
export function currenciesTooCoarseFor(amount_minor: number, use: AmountUse = 'payment'): string[] {
  return Object.keys(STEPS[use]).filter((code) => !settlesExactly(amount_minor, code, use))
}

/** An amount as a text has it: `7100, usd` is `USD 71.00`. */
export function moneyText(amount_minor: number, currency: string): string {
  const decimals = decimalsOf(currency)
  return `${currency.toUpperCase()} ${(amount_minor / 10 ** decimals).toFixed(decimals)}`
}

/** `currency`: in any case. */
export function decimalsOf(currency: string): number {
  return DECIMALS[currency.toUpperCase()] ?? 2
}

/** More than any processor accepts, so a larger amount is a mistake of the caller. */
export const MAX_AMOUNT_MINOR = 999_999_999_999

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
  })
  .meta({
    description: 'ISO 4217 currency code.',
    minLength: 3,
    maxLength: 3,
    example: 'USD',
  })

/** The same in lower case, as balances show it. */
export const lowerCurrency = currencyCode.meta({
  id: undefined,
  description: 'ISO 4217 currency code, in lower case.',
  minLength: 3,
  maxLength: 3,
  example: 'usd',
})
