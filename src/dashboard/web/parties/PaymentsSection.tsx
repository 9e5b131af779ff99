// The newest payments of a customer or a merchant.
import { Link } from '@tanstack/react-router'
import { CREATED_COLUMN } from '../kit/columns.tsx'
import { firstPaymentCurl } from '../kit/curl.ts'
import { defineList } from '../kit/define-list.ts'
import { shortId, Id } from '../kit/Id.tsx'
import { useList } from '../kit/list.ts'
import { ListView } from '../kit/ListPage.tsx'
import { Status } from '../kit/Status.tsx'
import { PAYMENT_AMOUNT_COLUMN } from '../payments/columns.tsx'
import { useAreaState } from '../session.tsx'

const NEWEST = defineList({
  path: '/v1/payments',
  label: 'Payments',
  columns: [
    { title: 'Id', cell: ({ id }) => <span className="mono">{shortId(id)}</span> },
    { title: 'Status', cell: ({ status }) => <Status status={status} /> },
    PAYMENT_AMOUNT_COLUMN,
    {
      title: 'Reference',
      cell: ({ processor_reference }) =>
        processor_reference === null ? '–' : <Id id={processor_reference} short label="reference" />,
    },
    CREATED_COLUMN,
  ],
  key: 'id',
  to: ({ id }) => `/payments/${id}`,
  limit: 10,
  interval_ms: 15_000,
  empty: {
    title: 'No payments yet',
    text: 'Create the first one from your program, or with this command.',
  },
})

export function PaymentsSection({ by, id }: { by: 'customer_id' | 'merchant_id'; id: string }) {
  const deployed = useAreaState('payments') === 'deployed'
  const list = useList(NEWEST, { fixed: { [by]: id }, enabled: deployed })
  if (!deployed) return null
  return (
    <section className="section">
      <div className="inline">
        <h2>Payments</h2>
        <Link to="/payments" search={{ [by]: id }} className="section-action">
          All payments
        </Link>
      </div>
      <ListView
        of={{ ...NEWEST, empty: { ...NEWEST.empty, curl: firstPaymentCurl({ [by]: id }) } }}
        list={list}
      />
    </section>
  )
}
