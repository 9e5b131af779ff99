// Columns of payouts.
import type { Payout } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN } from '../kit/columns.tsx'
import type { TableColumn } from '../kit/DataTable.tsx'
import { Status } from '../kit/Status.tsx'
import { PartyName } from '../parties/PartyName.tsx'

export const RECIPIENT_COLUMN: TableColumn<Payout> = {
  title: 'Recipient',
  cell: ({ recipient_id }) => <PartyName type="recipient" id={recipient_id} />,
  clip: true,
  csv: ({ recipient_id }) => recipient_id,
}

export const PAYOUT_COLUMNS: TableColumn<Payout>[] = [
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Description',
    cell: ({ description }) => description ?? '–',
    clip: true,
    csv: ({ description }) => description,
  },
  ID_COLUMN,
  CREATED_COLUMN,
]
