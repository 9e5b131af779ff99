// Amounts of money in the reader's locale.
import { formatMoney } from './amounts.ts'

/**
 * An amount in minor units (`1200`, `usd`) as money (`$12.00`), with the decimals of its currency. `signed`: positive
 * amounts get a plus sign. In a table, set `align: 'end'` on the column.
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
