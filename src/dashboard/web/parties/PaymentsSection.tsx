// The newest payments of a customer or a merchant, on its page.
import { Link } from '@tanstack/react-router'
import type { Payment } from '#sdk/index.ts'
import { CREATED_COLUMN } from '../kit/columns.tsx'
import { useFirstPayment } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { shortId, Id } from '../kit/Id.tsx'
import { useList } from '../kit/list.ts'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { PAYMENT_AMOUNT_COLUMN } from '../payments/columns.tsx'
import { useAreaState } from '../session.tsx'

const COLUMNS: TableColumn<Payment>[] = [
  { title: 'Id', cell: ({ id }) => <span className="mono">{shortId(id)}</span> },
  { title: 'Status', cell: ({ status }) => <Status status={status} /> },
  PAYMENT_AMOUNT_COLUMN,
  {
    title: 'Reference',
    cell: ({ processor_reference }) =>
      processor_reference === null ? '–' : <Id id={processor_reference} short label="reference" />,
  },
  CREATED_COLUMN,
]

export function PaymentsSection({ by, id }: { by: 'customer_id' | 'merchant_id'; id: string }) {
  const deployed = useAreaState('payments') === 'deployed'
  const list = useList<Payment>('/v1/payments', [], {
    fixed: { [by]: id },
    limit: 10,
    every_ms: 15_000,
    enabled: deployed,
  })
  const curl = useFirstPayment({ [by]: id })
  if (!deployed) return null
  return (
    <section className="section">
      <div className="line">
        <h2>Payments</h2>
        <Link to="/payments" search={{ [by]: id }} className="section-more">
          All payments
        </Link>
      </div>
      <DataTable
        label="Payments"
        list={list}
        columns={COLUMNS}
        rowKey={({ id: payment_id }) => payment_id}
        to={({ id: payment_id }) => `/payments/${payment_id}`}
        empty={
          <EmptyState title="No payments yet" curl={curl}>
            Create the first one from your program, or with this command.
          </EmptyState>
        }
      />
    </section>
  )
}
