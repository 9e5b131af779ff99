// Columns for amounts of payments.
import type { Payment } from '#sdk/index.ts'
import { moneyColumn } from '../kit/columns.tsx'
import type { TableColumn } from '../kit/DataTable.tsx'
import { formatMoney, decimalAmount } from '../kit/amounts.ts'

/** The authorized amount. For a partial capture: `$5.00 of $11.11`. */
export const PAYMENT_AMOUNT_COLUMN: TableColumn<Payment> = {
  title: 'Amount',
  align: 'end',
  cell: ({ amount_minor, amount_captured_minor, currency }) => (
    <span className="figures nowrap">
      {amount_captured_minor > 0 && amount_captured_minor < amount_minor && (
        <>
          {formatMoney(amount_captured_minor, currency)} <span className="dim">of</span>{' '}
        </>
      )}
      {formatMoney(amount_minor, currency)}
    </span>
  ),
  csv: ({ amount_minor, currency }) => decimalAmount(amount_minor, currency),
}
export const CAPTURED_COLUMN = moneyColumn<Payment>(
  'Captured',
  ({ amount_captured_minor }) => amount_captured_minor,
)
