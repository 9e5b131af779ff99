// The columns of payouts, for their list and for the page of a recipient.
import type { Payout } from '#sdk/index.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Money, typedMoney } from '../kit/Money.tsx'
import { Status } from '../kit/Status.tsx'
import { PartyName } from '../parties/PartyName.tsx'

export const PAYOUT_STATUSES: Payout['status'][] = ['pending', 'processing', 'paid', 'failed', 'canceled']

export const AMOUNT: TableColumn<Payout> = {
  title: 'Amount',
  align: 'end',
  cell: ({ amount_minor, currency }) => <Money minor={amount_minor} currency={currency} />,
  csv: ({ amount_minor, currency }) => Number(typedMoney(amount_minor, currency)),
}

export const RECIPIENT: TableColumn<Payout> = {
  title: 'Recipient',
  cell: ({ recipient_id }) => <PartyName type="recipient" id={recipient_id} />,
  clip: true,
  csv: ({ recipient_id }) => recipient_id,
}

export const OTHERS: TableColumn<Payout>[] = [
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Description',
    cell: ({ description }) => description ?? '–',
    clip: true,
    csv: ({ description }) => description,
  },
  { title: 'Id', cell: ({ id }) => <Id id={id} short />, csv: ({ id }) => id },
  {
    title: 'Created',
    cell: ({ created_at }) => <Instant at={created_at} />,
    csv: ({ created_at }) => created_at,
  },
]

/** In files only: the table shows it with the amount. */
export const CURRENCY: TableColumn<Payout> = {
  title: 'Currency',
  cell: ({ currency }) => currency.toUpperCase(),
  csv: ({ currency }) => currency,
}
