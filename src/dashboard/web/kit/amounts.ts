// Formats and parses amounts of money. The decimals are those of the API: browsers differ for some currencies.
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

/** A compact amount (`$1.2K`), for the axis of a chart. */
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

/** The use of an amount, which decides its settlement step. Filters have no use and accept any amount. */
type AmountUse = keyof typeof STEPS

/**
 * Parses a typed amount (`12.50`) to minor units (`1250`). Undefined: not an amount of this currency, or not a multiple
 * of its settlement step.
 */
export function parseMoney(text: string, currency: string, use?: AmountUse): number | undefined {
  const decimals = decimalsOf(currency)
  const [, integer, fraction = ''] = /^\s*(\d{1,12})(?:[.,](\d*))?\s*$/.exec(text) ?? []
  if (integer === undefined || fraction.length > decimals) return undefined
  const minor = Number(integer + fraction.padEnd(decimals, '0'))
  return use === undefined || minor % settlementStep(currency, use) === 0 ? minor : undefined
}

/** A hint for currencies with settlement steps (` in steps of ISK 1.00`); empty for others. */
export function stepHint(currency: string, use: AmountUse): string {
  const step = settlementStep(currency, use)
  return step === 1 ? '' : ` in steps of ${formatMoney(step, currency)}`
}

/** An amount as a plain decimal (`12.50`), for fields and files. */
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
