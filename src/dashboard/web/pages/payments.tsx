// Payments: the list, its filters and its search.
import type { Payment } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { Fragment } from 'react'
import { useAddressSearch } from '../address.ts'
import { ID_COLUMN, CREATED_COLUMN, CURRENCY_COLUMN } from '../kit/columns.tsx'
import { firstPaymentCurl } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { ProcessorDeadline } from '../kit/Deadline.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { decimalAmount } from '../kit/amounts.ts'
import { Money } from '../kit/Money.tsx'
import { Status } from '../kit/Status.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { CAPTURED_COLUMN, PAYMENT_AMOUNT_COLUMN } from '../payments/columns.tsx'
import { CURRENCIES } from '../payments/filters.ts'
import {
  metadataFilter,
  searchParameters,
  useSearchedPayments,
  type EmailSearch,
} from '../payments/search.ts'

const columnsOf = (on_hold: boolean): TableColumn<Payment>[] => [
  PAYMENT_AMOUNT_COLUMN,
  {
    title: 'Status',
    cell: ({ status, dispute }) => (
      <span className="inline">
        <Status status={status} />
        {dispute !== null && dispute.closed_at === null && (
          <Status status={dispute.status} label="Disputed" />
        )}
      </span>
    ),
    csv: ({ status }) => status,
  },
  {
    title: 'Description',
    cell: ({ description }) => description ?? <span className="dim">–</span>,
    clip: true,
    csv: ({ description }) => description,
  },
  {
    title: 'Customer',
    cell: ({ customer_id }) =>
      customer_id === null ? (
        <span className="dim">–</span>
      ) : (
        <PartyName type="customer" id={customer_id} link />
      ),
    clip: true,
    csv: ({ customer_id }) => customer_id,
  },
  on_hold ? CAPTURE_BEFORE_COLUMN : REFUNDED_COLUMN,
  ID_COLUMN,
  CREATED_COLUMN,
]
const CAPTURE_BEFORE_COLUMN: TableColumn<Payment> = {
  title: 'Capture before',
  cell: ({ capture_before }) => <ProcessorDeadline at={capture_before} />,
  csv: ({ capture_before }) => capture_before,
}
const REFUNDED_COLUMN: TableColumn<Payment> = {
  title: 'Refunded',
  cell: ({ amount_refunded_minor, currency }) =>
    amount_refunded_minor === 0 ? (
      <span className="dim">–</span>
    ) : (
      <Money minor={amount_refunded_minor} currency={currency} />
    ),
  align: 'end',
  csv: ({ amount_refunded_minor, currency }) => decimalAmount(amount_refunded_minor, currency),
}
const formatMinute = (at: string) =>
  new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })

const PAYMENTS = defineList({
  path: '/v1/payments',
  label: 'Payments',
  filters: [
    { kind: 'choice', name: 'status', label: 'Status' },
    { kind: 'select', name: 'currency', label: 'Currency', options: CURRENCIES },
    { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
    {
      kind: 'text',
      name: 'search',
      label: 'Search',
      placeholder: 'Id, reference or email',
      toParameters: searchParameters,
    },
    { kind: 'amount', from: 'amount_min', to: 'amount_max', label: 'Amount' },
    {
      kind: 'text',
      name: 'metadata',
      label: 'Metadata',
      placeholder: 'key=value',
      validate: (text) => (metadataFilter(text) === undefined ? 'Enter key=value' : null),
      toParameters: (text) => metadataFilter(text) ?? {},
    },
    { kind: 'text', name: 'customer_id', label: 'Customer', linked: true },
    { kind: 'text', name: 'merchant_id', label: 'Merchant', linked: true },
    {
      kind: 'select',
      name: 'capture_before_to',
      label: 'Hold lapses',
      linked: true,
      options: (at) => [{ value: at, label: `before ${formatMinute(at)}` }],
    },
  ],
  columns: columnsOf(false),
  file: 'payments.csv',
  file_columns: [
    ...columnsOf(false),
    CURRENCY_COLUMN,
    CAPTURED_COLUMN,
    { title: 'Processor reference', cell: () => null, csv: ({ processor_reference }) => processor_reference },
    CAPTURE_BEFORE_COLUMN,
  ],
  key: 'id',
  to: ({ id }) => `/payments/${id}`,
  interval_ms: 10_000,
  empty: {
    title: 'No payments yet',
    text: 'Create a payment from your program, or with this command.',
    curl: firstPaymentCurl(),
  },
})
/** The list of authorized payments. They have no refunds, so it shows the capture deadline instead. */
const PAYMENTS_ON_HOLD = { ...PAYMENTS, columns: columnsOf(true) }

export function PaymentsPage() {
  const { list, exported, email } = useSearchedPayments(PAYMENTS)
  const [{ status }] = useAddressSearch()
  return (
    <ListPage
      of={status === 'authorized' ? PAYMENTS_ON_HOLD : PAYMENTS}
      list={list}
      exported={exported}
      title="Payments"
      description="Payments that were authorized, captured and refunded."
      actions={<Link to="/disputes">Disputes</Link>}
      above_rows={email && <CustomersWithEmail {...email} />}
    />
  )
}

/** The customer of a search by email, and other customers with the same email address. */
function CustomersWithEmail({ text, customer_ids: [shown, ...others] }: EmailSearch) {
  if (shown === undefined) return <p className="dim">No customer has the email address {text}.</p>
  return (
    <p className="dim">
      Customer: <PartyName type="customer" id={shown} link />
      {others.length > 0 && ' · Others with this email address: '}
      {others.map((id, nth) => (
        <Fragment key={id}>
          {nth > 0 && ', '}
          <PartyName type="customer" id={id} link />
        </Fragment>
      ))}
    </p>
  )
}
