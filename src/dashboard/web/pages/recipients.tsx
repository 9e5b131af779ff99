// Recipients: the list.
import type { Recipient } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN, CURRENCY_COLUMN, VERIFICATION_COLUMN } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { inWords } from '../kit/statuses.ts'

const FIELDS: FilterField[] = [
  { kind: 'text', name: 'email', label: 'Email' },
  { kind: 'select', name: 'type', label: 'Type', options: ['account', 'bank_account', 'card'] },
  { kind: 'text', name: 'currency', label: 'Currency', placeholder: 'usd' },
  {
    kind: 'select',
    name: 'archived',
    label: 'Archived',
    unset: 'Not archived',
    options: [{ value: 'true', label: 'Only archived' }],
  },
]

const COLUMNS: TableColumn<Recipient>[] = [
  { title: 'Name', cell: ({ name }) => name, clip: true, csv: ({ name }) => name },
  { title: 'Email', cell: ({ email }) => email ?? '–', clip: true, csv: ({ email }) => email },
  { title: 'Type', cell: ({ type }) => inWords(type), csv: ({ type }) => type },
  CURRENCY_COLUMN,
  { title: 'Country', cell: ({ country }) => country, csv: ({ country }) => country },
  VERIFICATION_COLUMN,
  ID_COLUMN,
  CREATED_COLUMN,
]

export function RecipientsPage() {
  const list = useList<Recipient>('/v1/recipients', ['email', 'type', 'currency', 'archived'], {
    every_ms: 30_000,
  })
  const curl = useCurl('/v1/recipients', {
    idempotency_key: 'recipient-1',
    name: 'Grace Hopper',
    type: 'account',
    currency: 'usd',
    country: 'US',
    destination: 'acct_success',
  })
  return (
    <>
      <PageHeader title="Recipients" description="The people and companies that you pay." />
      <Filters fields={FIELDS} end={<CsvExport list={list} columns={COLUMNS} name="recipients.csv" />} />
      <DataTable
        label="Recipients"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/recipients/${id}`}
        empty={
          <EmptyState title="No recipients yet" curl={curl}>
            Create a recipient from your program, or with this command.
          </EmptyState>
        }
      />
    </>
  )
}
