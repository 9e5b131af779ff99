// Amounts of money, as the reader's locale writes them.
import { formatMoney } from './amounts.ts'

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
