// Refunds of all payments: the list.
import type { Refund } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { ID_COLUMN, CREATED_COLUMN, AMOUNT_COLUMN, CURRENCY_COLUMN } from '../kit/columns.tsx'
import { curlOf } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { shortId } from '../kit/Id.tsx'
import { ListPage } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { humanize } from '../kit/statuses.ts'
import { CURRENCIES } from '../payments/filters.ts'

const COLUMNS: TableColumn<Refund>[] = [
  AMOUNT_COLUMN,
  CURRENCY_COLUMN,
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Reason',
    cell: ({ reason, failure, imported }) =>
      failure?.message ?? (reason === null ? (imported ? 'Made at the processor' : '–') : humanize(reason)),
    clip: true,
    csv: ({ reason }) => reason,
  },
  {
    title: 'Payment',
    cell: ({ payment_id }) => (
      <Link to="/payments/$id" params={{ id: payment_id }} className="mono" title={payment_id}>
        {shortId(payment_id)}
      </Link>
    ),
    csv: ({ payment_id }) => payment_id,
  },
  ID_COLUMN,
  CREATED_COLUMN,
]

const REFUNDS = defineList({
  path: '/v1/refunds',
  label: 'Refunds',
  filters: [
    { kind: 'choice', name: 'status', label: 'Status' },
    { kind: 'select', name: 'currency', label: 'Currency', options: CURRENCIES },
    { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
    {
      kind: 'text',
      name: 'search',
      label: 'Search',
      placeholder: 'Processor reference',
      toParameters: (processor_reference) => ({ processor_reference }),
    },
  ],
  columns: COLUMNS,
  file: 'refunds.csv',
  key: 'id',
  to: ({ id }) => `/refunds/${id}`,
  interval_ms: 10_000,
  empty: {
    title: 'No refunds yet',
    text: 'Refund a captured payment on its page, from your program, or with this command.',
    curl: curlOf('/v1/payments/PAYMENT_ID/refunds', {
      idempotency_key: 'refund-1',
      reason: 'requested_by_customer',
    }),
  },
})

export function RefundsPage() {
  return <ListPage of={REFUNDS} title="Refunds" description="Money that goes back to buyers." />
}
