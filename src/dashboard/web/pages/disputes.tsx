// Disputes: the list.
import type { Dispute } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { useAddressSearch } from '../address.ts'
import { AMOUNT_COLUMN, CURRENCY_COLUMN, momentColumn } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { shortId } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'

const FIELDS: FilterField[] = [
  {
    kind: 'select',
    name: 'status',
    label: 'Status',
    options: ['needs_response', 'under_review', 'won', 'lost', 'warning'],
  },
  { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
]
const OF_PAYMENT: FilterField = { kind: 'text', name: 'payment_id', label: 'Payment' }

const COLUMNS: TableColumn<Dispute>[] = [
  AMOUNT_COLUMN,
  CURRENCY_COLUMN,
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Reason',
    cell: ({ reason }) => (reason === null ? '–' : inWords(reason)),
    clip: true,
    csv: ({ reason }) => reason,
  },
  {
    title: 'Respond by',
    cell: ({ evidence_due_by, status }) => (
      <Instant at={status === 'needs_response' || status === 'warning' ? evidence_due_by : null} />
    ),
    csv: ({ evidence_due_by }) => evidence_due_by,
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
  momentColumn('Opened', ({ opened_at }) => opened_at),
]

export function DisputesPage() {
  const [{ payment_id }] = useAddressSearch()
  const list = useList<Dispute>('/v1/disputes', ['status', 'payment_id', 'created_from', 'created_to'], {
    every_ms: 10_000,
  })
  return (
    <>
      <PageHeader
        title="Disputes"
        above={{ to: '/payments', title: 'Payments' }}
        description="Payments that a buyer's bank disputes. Respond to them in the processor's dashboard."
      />
      <Filters
        fields={payment_id === undefined ? FIELDS : [...FIELDS, OF_PAYMENT]}
        end={<CsvExport list={list} columns={COLUMNS} name="disputes.csv" />}
      />
      <DataTable
        label="Disputes"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/disputes/${id}`}
        empty={
          <EmptyState title="No disputes yet">
            A dispute is opened by a buyer's bank and then appears here.
          </EmptyState>
        }
      />
    </>
  )
}
