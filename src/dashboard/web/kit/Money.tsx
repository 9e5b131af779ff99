// Amounts of money, as the reader's locale writes them.

/**
 * An amount in minor units (`1200`, `usd`) as money (`$12.00`), with the digits that its currency has. `signed`: with a
 * plus where it came in. In a table give the column `align: 'end'`.
 */
export function Money({
  minor,
  currency,
  signed = false,
}: {
  minor: number
  currency: string
  signed?: boolean
}) {
  return <span className="figures nowrap">{formatMoney(minor, currency, signed)}</span>
}

/** The same as text: for labels, titles and files. */
export function formatMoney(minor: number, currency: string, signed = false): string {
  const format = new Intl.NumberFormat(undefined, {
    style: 'currency',
    currency: currency.toUpperCase(),
    signDisplay: signed ? 'exceptZero' : 'auto',
  })
  return format.format(minor / 10 ** minorDigits(currency))
}

/** What somebody typed (`12.50`) in minor units (`1250`); undefined when it is no amount of this currency. */
export function parseMoney(text: string, currency: string): number | undefined {
  const digits = minorDigits(currency)
  const [, whole, part = ''] = /^\s*(\d{1,12})(?:[.,](\d*))?\s*$/.exec(text) ?? []
  if (whole === undefined || part.length > digits) return undefined
  return Number(whole + part.padEnd(digits, '0'))
}

/** An amount as somebody would type it (`12.50`), to begin a field with. */
export function typedMoney(minor: number, currency: string): string {
  const digits = minorDigits(currency)
  return (minor / 10 ** digits).toFixed(digits)
}

function minorDigits(currency: string): number {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency: currency.toUpperCase() })
  return format.resolvedOptions().maximumFractionDigits ?? 2
}
