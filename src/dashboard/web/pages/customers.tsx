// Customers: the list.
import type { Customer } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN, VERIFICATION_COLUMN } from '../kit/columns.tsx'
import { curlOf, FIRST_CUSTOMER } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { customerName } from '../parties/PartyName.tsx'

const COLUMNS: TableColumn<Customer>[] = [
  {
    title: 'Name',
    cell: (row) =>
      row.deleted_at === null ? customerName(row) : <span className="dim">Deleted customer</span>,
    clip: true,
    csv: ({ name }) => name,
  },
  { title: 'Email', cell: ({ email }) => email ?? '–', clip: true, csv: ({ email }) => email },
  {
    title: 'External id',
    cell: ({ external_id }) => <span className="mono">{external_id ?? '–'}</span>,
    clip: true,
    csv: ({ external_id }) => external_id,
  },
  VERIFICATION_COLUMN,
  ID_COLUMN,
  CREATED_COLUMN,
]

const CUSTOMERS = defineList({
  path: '/v1/customers',
  label: 'Customers',
  filters: [
    { kind: 'text', name: 'email', label: 'Email' },
    { kind: 'text', name: 'external_id', label: 'External id' },
    { kind: 'flag', name: 'deleted', label: 'Deleted', default_label: 'Not deleted', set: 'Include deleted' },
  ],
  columns: COLUMNS,
  file: 'customers.csv',
  key: 'id',
  to: ({ id }) => `/customers/${id}`,
  interval_ms: 30_000,
  empty: {
    title: 'No customers yet',
    text: 'Create a customer from your program, or with this command.',
    curl: curlOf('/v1/customers', FIRST_CUSTOMER),
  },
})

export function CustomersPage() {
  return <ListPage of={CUSTOMERS} title="Customers" description="The people and companies that pay." />
}
