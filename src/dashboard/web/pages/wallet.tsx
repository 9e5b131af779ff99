// Wallet: balances and transactions.
import type { WalletTransaction, WalletTransactionKind } from '#sdk/index.ts'
import { CURRENCY_COLUMN, timeColumn, moneyColumn } from '../kit/columns.tsx'
import { curlOf, FIRST_TOP_UP } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { shortId } from '../kit/Id.tsx'
import { ListView } from '../kit/ListPage.tsx'
import { resourceLabel, pageOfResource } from '../resources.ts'
import { useCurrencyFilter, type CurrencyFilter } from '../wallet/balances.ts'
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
          {resourceLabel(subject_type)} <span className="mono dim">{shortId(subject_id)}</span>
        </>
      ),
    csv: ({ subject_type, subject_id }) => `${subject_type ?? ''} ${subject_id}`,
  },
  timeColumn('Posted', ({ created_at }) => created_at),
]

const transactionsBy = (currency: CurrencyFilter) =>
  defineList({
    path: '/v1/wallet/transactions',
    label: 'Transactions',
    filters: [
      currency,
      { kind: 'choice', name: 'kind', label: 'Kind', labels: KINDS },
      { kind: 'days', from: 'created_from', to: 'created_to', label: 'Posted' },
      { kind: 'text', name: 'subject_id', label: 'Subject id' },
    ],
    columns: COLUMNS,
    file: 'transactions.csv',
    key: 'id',
    to: ({ subject_type, subject_id }) =>
      subject_type === null ? '/wallet' : pageOfResource(subject_type, subject_id),
    interval_ms: 10_000,
    empty: {
      title: 'No transactions yet',
      text: 'Every change of a balance is listed here. Create the first transaction with a top-up:',
      curl: curlOf('/v1/wallet/top_ups', FIRST_TOP_UP),
    },
  })

export function WalletPage() {
  return (
    <WalletFrame tab="transactions">
      <Transactions />
    </WalletFrame>
  )
}

function Transactions() {
  return <ListView of={transactionsBy(useCurrencyFilter())} />
}
