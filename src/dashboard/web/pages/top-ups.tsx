// Wallet: balances and top-ups.
import type { TopUp } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN, AMOUNT_COLUMN, CURRENCY_COLUMN } from '../kit/columns.tsx'
import { curlOf, FIRST_TOP_UP } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListView } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { useCurrencyFilter, type CurrencyFilter } from '../wallet/balances.ts'
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

const topUpsBy = (currency: CurrencyFilter) =>
  defineList({
    path: '/v1/wallet/top_ups',
    label: 'Top-ups',
    filters: [
      { kind: 'choice', name: 'status', label: 'Status' },
      currency,
      { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
    ],
    columns: COLUMNS,
    file: 'top-ups.csv',
    key: 'id',
    to: ({ id }) => `/wallet/top-ups/${id}`,
    interval_ms: 10_000,
    empty: {
      title: 'No top-ups yet',
      text: 'Create a top-up with the button above, from your program, or with this command.',
      curl: curlOf('/v1/wallet/top_ups', FIRST_TOP_UP),
    },
  })

export function TopUpsPage() {
  return (
    <WalletFrame tab="top-ups">
      <TopUps />
    </WalletFrame>
  )
}

function TopUps() {
  return <ListView of={topUpsBy(useCurrencyFilter())} />
}
