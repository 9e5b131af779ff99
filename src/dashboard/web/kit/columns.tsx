// Columns that several lists share.
import type { TableColumn } from './DataTable.tsx'
import { Id } from './Id.tsx'
import { Instant } from './Instant.tsx'
import { decimalAmount } from './amounts.ts'
import { Money } from './Money.tsx'
import { Status } from './Status.tsx'

type WithAmount = { amount_minor: number; currency: string }

/** A column with a time. Null is shown as a dash. */
export function timeColumn<T>(title: string, at: (row: T) => string | null): TableColumn<T> {
  return { title, cell: (row) => <Instant at={at(row)} />, csv: at }
}

/** A column with an amount of money. CSV files have a plain decimal: `12.50`. */
export function moneyColumn<T extends { currency: string }>(
  title: string,
  minorOf: (row: T) => number,
  { signed = false }: { signed?: boolean } = {},
): TableColumn<T> {
  return {
    title,
    align: 'end',
    cell: (row) => <Money minor={minorOf(row)} currency={row.currency} signed={signed} />,
    csv: (row) => decimalAmount(minorOf(row), row.currency),
  }
}

export const ID_COLUMN: TableColumn<{ id: string }> = {
  title: 'Id',
  cell: ({ id }) => <Id id={id} short />,
  csv: ({ id }) => id,
}
export const CREATED_COLUMN = timeColumn<{ created_at: string }>('Created', ({ created_at }) => created_at)
export const AMOUNT_COLUMN = moneyColumn<WithAmount>('Amount', ({ amount_minor }) => amount_minor)
export const CURRENCY_COLUMN: TableColumn<{ currency: string }> = {
  title: 'Currency',
  cell: ({ currency }) => currency.toUpperCase(),
  csv: ({ currency }) => currency,
}
export const VERIFICATION_COLUMN: TableColumn<{ kyc_status: string }> = {
  title: 'Verification',
  cell: ({ kyc_status }) => <Status status={kyc_status} resource="kyc" />,
  csv: ({ kyc_status }) => kyc_status,
}
