// Amounts of money as text: shown, and typed. The decimals are those that the API counts in; what browsers know of some
// currencies differs.
import { DECIMALS, STEPS } from '../generated/currencies.ts'

/** An amount in minor units (`1200`, `usd`) as money (`$12.00`), for labels and titles. */
export function formatMoney(minor: number, currency: string, signed = false): string {
  const decimals = decimalsOf(currency)
  const format = new Intl.NumberFormat(undefined, {
    style: 'currency',
    currency: currency.toUpperCase(),
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
    signDisplay: signed ? 'exceptZero' : 'auto',
  })
  return format.format(minor / 10 ** decimals)
}

/** An amount in few letters (`$1.2K`), for the axis of a chart. */
export function compactMoney(minor: number, currency: string): string {
  const format = new Intl.NumberFormat(undefined, {
    style: 'currency',
    currency: currency.toUpperCase(),
    currencyDisplay: 'narrowSymbol',
    notation: 'compact',
    minimumFractionDigits: 0,
    maximumFractionDigits: 1,
  })
  return format.format(minor / 10 ** decimalsOf(currency))
}

/** What an amount is for; a filter is for nothing and takes any. */
type AmountUse = keyof typeof STEPS

/**
 * What somebody typed (`12.50`) in minor units (`1250`); undefined when it is no amount of this currency, or one that
 * the processor does not settle.
 */
export function parseMoney(text: string, currency: string, use?: AmountUse): number | undefined {
  const decimals = decimalsOf(currency)
  const [, integer, fraction = ''] = /^\s*(\d{1,12})(?:[.,](\d*))?\s*$/.exec(text) ?? []
  if (integer === undefined || fraction.length > decimals) return undefined
  const minor = Number(integer + fraction.padEnd(decimals, '0'))
  return use === undefined || minor % settlementStep(currency, use) === 0 ? minor : undefined
}

/** What to say of a currency that is settled in steps (` in steps of ISK 1.00`); otherwise nothing. */
export function stepHint(currency: string, use: AmountUse): string {
  const step = settlementStep(currency, use)
  return step === 1 ? '' : ` in steps of ${formatMoney(step, currency)}`
}

/** An amount as somebody would type it (`12.50`), to begin a field with. */
export function decimalAmount(minor: number, currency: string): string {
  const decimals = decimalsOf(currency)
  return (minor / 10 ** decimals).toFixed(decimals)
}

function decimalsOf(currency: string): number {
  return DECIMALS[currency.toUpperCase()] ?? 2
}

function settlementStep(currency: string, use: AmountUse): number {
  return STEPS[use][currency.toUpperCase()] ?? 1
}
