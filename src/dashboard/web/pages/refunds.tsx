// Refunds of all payments: the list.
import type { Refund } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { useAddressSearch } from '../address.ts'
import { ID_COLUMN, CREATED_COLUMN, AMOUNT_COLUMN, CURRENCY_COLUMN } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { shortId } from '../kit/Id.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'
import { CURRENCIES } from '../payments/filters.ts'

const FIELDS: FilterField[] = [
  { kind: 'select', name: 'status', label: 'Status', options: ['pending', 'succeeded', 'failed'] },
  { kind: 'select', name: 'currency', label: 'Currency', options: CURRENCIES },
  { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
  { kind: 'text', name: 'search', label: 'Search', placeholder: 'Processor reference' },
]

const COLUMNS: TableColumn<Refund>[] = [
  AMOUNT_COLUMN,
  CURRENCY_COLUMN,
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Reason',
    cell: ({ reason, failure, imported }) =>
      failure?.message ?? (reason === null ? (imported ? 'Made at the processor' : '–') : inWords(reason)),
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

export function RefundsPage() {
  const [{ search }] = useAddressSearch()
  const fixed = search === undefined || search === '' ? {} : { processor_reference: search }
  const found = useList<Refund>('/v1/refunds', ['status', 'currency', 'created_from', 'created_to'], {
    fixed,
    every_ms: 10_000,
  })
  const list = { ...found, filtered: found.filtered || Object.keys(fixed).length > 0 }
  const curl = useCurl('/v1/payments/PAYMENT_ID/refunds', {
    idempotency_key: 'refund-1',
    reason: 'requested_by_customer',
  })
  return (
    <>
      <PageHeader title="Refunds" description="Money that goes back to buyers." />
      <Filters fields={FIELDS} end={<CsvExport list={list} columns={COLUMNS} name="refunds.csv" />} />
      <DataTable
        label="Refunds"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/refunds/${id}`}
        empty={
          <EmptyState title="No refunds yet" curl={curl}>
            Refund a captured payment on its page, from your program, or with this command.
          </EmptyState>
        }
      />
    </>
  )
}
