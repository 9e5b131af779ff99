// The currencies Stripe takes, their least amounts and how its messages write money.
import { decimalsOf, settlementStep, type AmountUse } from '#core/money.ts'
import { parameterRefused } from './errors.ts'

const SUPPORTED = new Set(
  (
    'usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf chf clp cny cop crc cve czk djf dkk dop dzd ' +
    'egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr isk jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga ' +
    'mkd mmk mnt mop mro mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp sle sll sos srd ' +
    'std szl thb tjs tnd top try ttd twd tzs uah ugx uyu uzs vnd vuv wst xaf xcd xcg xof xpf yer zar zmw'
  ).split(' '),
)
const LEAST: Record<string, number> = {
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

/** In the smallest unit: eight digits, twelve of IDR (docs: "Minimum and maximum charge amounts"). */
export function largestAmount(currency: string): number {
  return currency === 'idr' ? 999_999_999_999 : 99_999_999
}

export function isCurrency(code: string): boolean {
  return SUPPORTED.has(code)
}

export function supportedCurrencies(): string {
  return [...SUPPORTED].join(', ')
}

/** In the smallest unit. */
export function leastAmount(currency: string): number {
  return LEAST[currency] ?? 50
}

/** 2500, usd -> `$25.00`. */
export function inWords(amount: number, currency: string): string {
  const decimals = decimalsOf(currency)
  const number = (amount / 10 ** decimals).toLocaleString('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  })
  return SIGNS[currency] ? `${SIGNS[currency]}${number}` : `${number} ${currency.toUpperCase()}`
}

/** Refuses an amount that is finer than Stripe settles (docs: "Three-decimal currencies", "Special cases"). */
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
