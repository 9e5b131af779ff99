// Disputes: the list.
import type { Dispute } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { AMOUNT_COLUMN, CURRENCY_COLUMN, timeColumn } from '../kit/columns.tsx'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { shortId } from '../kit/Id.tsx'
import { ProcessorDeadline } from '../kit/Deadline.tsx'
import { ListPage } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { humanize } from '../kit/statuses.ts'

const COLUMNS: TableColumn<Dispute>[] = [
  AMOUNT_COLUMN,
  CURRENCY_COLUMN,
  { title: 'Status', cell: ({ status }) => <Status status={status} />, csv: ({ status }) => status },
  {
    title: 'Reason',
    cell: ({ reason }) => (reason === null ? '–' : humanize(reason)),
    clip: true,
    csv: ({ reason }) => reason,
  },
  {
    title: 'Respond by',
    cell: ({ evidence_due_by, status }) => (
      <ProcessorDeadline at={status === 'needs_response' || status === 'warning' ? evidence_due_by : null} />
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
  timeColumn('Opened', ({ opened_at }) => opened_at),
]

const DISPUTES = defineList({
  path: '/v1/disputes',
  label: 'Disputes',
  filters: [
    { kind: 'choice', name: 'status', label: 'Status' },
    { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
    { kind: 'text', name: 'payment_id', label: 'Payment', linked: true },
  ],
  columns: COLUMNS,
  file: 'disputes.csv',
  key: 'id',
  to: ({ id }) => `/disputes/${id}`,
  interval_ms: 10_000,
  empty: {
    title: 'No disputes yet',
    text: "A dispute is opened by a buyer's bank and then appears here.",
  },
})

export function DisputesPage() {
  return (
    <ListPage
      of={DISPUTES}
      title="Disputes"
      parent={{ to: '/payments', title: 'Payments' }}
      description="Payments that a buyer's bank disputes. Respond to them in the processor's dashboard."
    />
  )
}
