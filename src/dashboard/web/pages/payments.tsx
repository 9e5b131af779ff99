// Payments: the list, with what it can be searched by.
import type { Payment } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { Fragment } from 'react'
import { useAddressSearch, type AddressSearch } from '../address.ts'
import { ID_COLUMN, CREATED_COLUMN, CURRENCY_COLUMN, momentColumn } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useFirstPayment } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { typedMoney } from '../kit/amounts.ts'
import { Money } from '../kit/Money.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { CAPTURED_COLUMN, PAYMENT_AMOUNT_COLUMN } from '../payments/columns.tsx'
import { CURRENCIES } from '../payments/filters.ts'
import { metadataFilter, useSearchedPayments, type SearchedEmail } from '../payments/search.ts'

const FIELDS: FilterField[] = [
  {
    kind: 'select',
    name: 'status',
    label: 'Status',
    options: [
      'pending',
      'requires_action',
      'authorized',
      'capturing',
      'captured',
      'canceling',
      'canceled',
      'failed',
    ],
  },
  { kind: 'select', name: 'currency', label: 'Currency', options: CURRENCIES },
  { kind: 'days', from: 'created_from', to: 'created_to', label: 'Created' },
  { kind: 'text', name: 'search', label: 'Search', placeholder: 'Id, reference or email' },
  { kind: 'amount', from: 'amount_min', to: 'amount_max', label: 'Amount' },
  {
    kind: 'text',
    name: 'metadata',
    label: 'Metadata',
    placeholder: 'key=value',
    problem: (text) => (metadataFilter(text) === undefined ? 'Enter key=value' : null),
  },
]
/** Filters that links lead here with; a chip takes them away. */
function linkedFields({ customer_id, merchant_id, capture_before_to }: AddressSearch): FilterField[] {
  const fields: FilterField[] = []
  if (customer_id !== undefined) fields.push({ kind: 'text', name: 'customer_id', label: 'Customer' })
  if (merchant_id !== undefined) fields.push({ kind: 'text', name: 'merchant_id', label: 'Merchant' })
  if (capture_before_to !== undefined)
    fields.push({
      kind: 'select',
      name: 'capture_before_to',
      label: 'Hold lapses',
      options: [{ value: capture_before_to, label: `before ${minuteOf(capture_before_to)}` }],
    })
  return fields
}
const minuteOf = (at: string) =>
  new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })

const columnsOf = (held: boolean): TableColumn<Payment>[] => [
  PAYMENT_AMOUNT_COLUMN,
  {
    title: 'Status',
    cell: ({ status, dispute }) => (
      <span className="line">
        <Status status={status} />
        {dispute !== null && dispute.closed_at === null && <Status status={dispute.status} word="Disputed" />}
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
  held ? CAPTURE_BEFORE_COLUMN : REFUNDED_COLUMN,
  ID_COLUMN,
  CREATED_COLUMN,
]
const CAPTURE_BEFORE_COLUMN = momentColumn<Payment>('Capture before', ({ capture_before }) => capture_before)
const REFUNDED_COLUMN: TableColumn<Payment> = {
  title: 'Refunded',
  cell: ({ amount_refunded_minor, currency }) =>
    amount_refunded_minor === 0 ? (
      <span className="dim">–</span>
    ) : (
      <Money minor={amount_refunded_minor} currency={currency} />
    ),
  align: 'end',
  csv: ({ amount_refunded_minor, currency }) => typedMoney(amount_refunded_minor, currency),
}
const FILE_COLUMNS: TableColumn<Payment>[] = [
  ...columnsOf(false),
  CURRENCY_COLUMN,
  CAPTURED_COLUMN,
  { title: 'Processor reference', cell: () => null, csv: ({ processor_reference }) => processor_reference },
  CAPTURE_BEFORE_COLUMN,
]

export function PaymentsPage() {
  const { list, exported, email } = useSearchedPayments()
  const [search] = useAddressSearch()
  // Nothing was refunded yet of what is held; until when it is held decides what is done first.
  const columns = columnsOf(search['status'] === 'authorized')
  const curl = useFirstPayment()
  return (
    <>
      <PageHeader
        title="Payments"
        description="Money that is held, captured and refunded."
        actions={<Link to="/disputes">Disputes</Link>}
      />
      <Filters
        fields={[...FIELDS, ...linkedFields(search)]}
        end={exported && <CsvExport list={exported} columns={FILE_COLUMNS} name="payments.csv" />}
      />
      {email && <OfEmail {...email} />}
      <DataTable
        label="Payments"
        list={list}
        columns={columns}
        rowKey={({ id }) => id}
        to={({ id }) => `/payments/${id}`}
        empty={
          <EmptyState title="No payments yet" curl={curl}>
            Create a payment from your program, or with this command.
          </EmptyState>
        }
      />
    </>
  )
}

/** Whose payments a search by email shows: an email may be that of several customers, or of none. */
function OfEmail({ text, customer_ids: [shown, ...others] }: SearchedEmail) {
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
