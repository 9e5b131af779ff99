// Payments: the list, with what it can be searched by.
import type { Payment } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { useAddressSearch, type AddressSearch } from '../address.ts'
import { ID_COLUMN, CREATED_COLUMN, AMOUNT_COLUMN, CURRENCY_COLUMN, momentColumn } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useFirstPayment } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { UUID } from '../kit/Id.tsx'
import { useList, wholeList, type ListState, type TableList } from '../kit/list.ts'
import { typedMoney } from '../kit/amounts.ts'
import { Money } from '../kit/Money.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { CURRENCIES } from '../payments/filters.ts'
import { useAnswer } from '../queries.ts'

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
  { kind: 'text', name: 'search', label: 'Search', placeholder: 'Id or reference' },
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

const NAMES = [
  'status',
  'currency',
  'created_from',
  'created_to',
  'customer_id',
  'merchant_id',
  'capture_before_to',
  'amount_min',
  'amount_max',
]

const columnsOf = (held: boolean): TableColumn<Payment>[] => [
  AMOUNT_COLUMN,
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
/** Only in the file. */
const FILE_COLUMNS: TableColumn<Payment>[] = [
  ...columnsOf(false),
  CURRENCY_COLUMN,
  { title: 'Processor reference', cell: () => null, csv: ({ processor_reference }) => processor_reference },
  CAPTURE_BEFORE_COLUMN,
]

export function PaymentsPage() {
  const { list, exported } = useSearched()
  const [search] = useAddressSearch()
  // Nothing went back yet of what is held; until when it is held decides what is done first.
  const columns = columnsOf(search['status'] === 'authorized')
  const curl = useFirstPayment()
  return (
    <>
      <PageHeader
        title="Payments"
        description="Money that is held, taken and given back."
        actions={<Link to="/disputes">Disputes</Link>}
      />
      <Filters
        fields={[...FIELDS, ...linkedFields(search)]}
        end={exported && <CsvExport list={exported} columns={FILE_COLUMNS} name="payments.csv" />}
      />
      <DataTable
        label="Payments"
        list={list}
        columns={columns}
        rowKey={({ id }) => id}
        to={({ id }) => `/payments/${id}`}
        empty={
          <EmptyState title="No payments yet" curl={curl}>
            A payment is made by your program, or by this command.
          </EmptyState>
        }
      />
    </>
  )
}

/** What the text of `Search` finds: the payment of that id, or else those of a customer or a processor's reference. */
function useSearched(): { list: TableList<Payment>; exported?: ListState<Payment> } {
  const [address] = useAddressSearch()
  const text = address['search']?.trim() ?? ''
  const is_id = UUID.test(text)
  const nouns = useAnswer<{ noun: string }[]>('/find', { q: text }, { enabled: is_id })
  const is_one = is_id && nouns.data?.some(({ noun }) => noun === 'payment') === true
  const payment = useAnswer<Payment>(`/v1/payments/${text}`, undefined, { every_ms: 10_000, enabled: is_one })
  const list = useList<Payment>('/v1/payments', NAMES, {
    fixed: text === '' ? {} : is_id ? { customer_id: text } : { processor_reference: text },
    every_ms: 10_000,
    enabled: !is_id || (!nouns.isPending && !is_one),
  })
  if (is_one) return { list: wholeList(payment, payment.data && [payment.data]) }
  return { list: { ...list, filtered: list.filtered || text !== '' }, exported: list }
}
