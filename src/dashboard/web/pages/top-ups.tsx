// Wallet: balances and top-ups.
import type { TopUp } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { ID_COLUMN, CREATED_COLUMN, AMOUNT_COLUMN, CURRENCY_COLUMN } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { FIRST_TOP_UP, useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { useCurrencyFilter } from '../wallet/balances.ts'
import { WalletFrame } from '../wallet/WalletFrame.tsx'

const COLUMNS: TableColumn<TopUp>[] = [
  AMOUNT_COLUMN,
  CURRENCY_COLUMN,
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Source',
    cell: ({ source }) => (source === null ? 'Platform account' : <span className="mono">{source}</span>),
    csv: ({ source }) => source,
  },
  {
    title: 'Description',
    cell: ({ description }) => description ?? '–',
    clip: true,
    csv: ({ description }) => description,
  },
  ID_COLUMN,
  CREATED_COLUMN,
]

export function TopUpsPage() {
  return (
    <WalletFrame tab="top-ups">
      <TopUps />
    </WalletFrame>
  )
}

function TopUps() {
  const names = ['status', 'currency', 'created_from', 'created_to']
  const list = useList<TopUp>('/v1/wallet/top_ups', names, { every_ms: 10_000 })
  const [search] = useAddressSearch()
  const fields: FilterField[] = [
    {
      kind: 'select',
      name: 'status',
      label: 'Status',
      options: ['pending', 'succeeded', 'failed', 'canceled'],
    },
    useCurrencyFilter(search['currency']),
    { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
  ]
  const curl = useCurl('/v1/wallet/top_ups', FIRST_TOP_UP)
  return (
    <>
      <Filters fields={fields} end={<CsvExport list={list} columns={COLUMNS} name="top-ups.csv" />} />
      <DataTable
        label="Top-ups"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/wallet/top-ups/${id}`}
        empty={
          <EmptyState title="No top-ups yet" curl={curl}>
            Create a top-up with the button above, from your program, or with this command.
          </EmptyState>
        }
      />
    </>
  )
}
