// Wallet: balances and transactions.
import type { WalletTransaction, WalletTransactionKind } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { CURRENCY_COLUMN, momentColumn, moneyColumn } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { FIRST_TOP_UP, useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { shortId } from '../kit/Id.tsx'
import { useList } from '../kit/list.ts'
import { EmptyState } from '../kit/states.tsx'
import { nounWords, pageOfNoun } from '../nouns.ts'
import { useCurrencyFilter } from '../wallet/balances.ts'
import { WalletFrame } from '../wallet/WalletFrame.tsx'

const KINDS: Record<WalletTransactionKind, string> = {
  capture: 'Capture',
  refund: 'Refund',
  refund_failed: 'Refund failed',
  top_up: 'Top-up',
  top_up_reversed: 'Top-up reversed',
  payout_paid: 'Payout paid',
  payout_returned: 'Payout returned',
  dispute_withdrawn: 'Dispute withdrawn',
  dispute_reinstated: 'Dispute reinstated',
  fee: 'Fee',
  correction: 'Correction',
}

const COLUMNS: TableColumn<WalletTransaction>[] = [
  { title: 'Kind', cell: ({ kind }) => KINDS[kind], csv: ({ kind }) => kind },
  moneyColumn('Amount', ({ amount_minor }) => amount_minor, { signed: true }),
  moneyColumn('Balance after', ({ balance_after_minor }) => balance_after_minor),
  CURRENCY_COLUMN,
  {
    title: 'Subject',
    cell: ({ subject_type, subject_id }) =>
      subject_type === null ? (
        '–'
      ) : (
        <>
          {nounWords(subject_type)} <span className="mono dim">{shortId(subject_id)}</span>
        </>
      ),
    csv: ({ subject_type, subject_id }) => `${subject_type ?? ''} ${subject_id}`,
  },
  momentColumn('Posted', ({ created_at }) => created_at),
]

export function WalletPage() {
  return (
    <WalletFrame tab="transactions">
      <Transactions />
    </WalletFrame>
  )
}

function Transactions() {
  const names = ['currency', 'kind', 'created_from', 'created_to', 'subject_id']
  const list = useList<WalletTransaction>('/v1/wallet/transactions', names, { every_ms: 10_000 })
  const [search] = useAddressSearch()
  const fields: FilterField[] = [
    useCurrencyFilter(search['currency']),
    {
      kind: 'select',
      name: 'kind',
      label: 'Kind',
      options: Object.entries(KINDS).map(([value, label]) => ({ value, label })),
    },
    { kind: 'days', from: 'created_from', to: 'created_to', label: 'Posted' },
    { kind: 'text', name: 'subject_id', label: 'Subject id' },
  ]
  const curl = useCurl('/v1/wallet/top_ups', FIRST_TOP_UP)
  return (
    <>
      <Filters fields={fields} end={<CsvExport list={list} columns={COLUMNS} name="transactions.csv" />} />
      <DataTable
        label="Transactions"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ subject_type, subject_id }) =>
          subject_type === null ? '/wallet' : pageOfNoun(subject_type, subject_id)
        }
        empty={
          <EmptyState title="No transactions yet" curl={curl}>
            Everything that changes a balance is listed here. The quickest first entry is a top-up:
          </EmptyState>
        }
      />
    </>
  )
}
