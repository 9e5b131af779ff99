// Customers: the list.
import type { Customer } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN, VERIFICATION_COLUMN } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { FIRST_CUSTOMER, useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { customerName } from '../parties/PartyName.tsx'

const FIELDS: FilterField[] = [
  { kind: 'text', name: 'email', label: 'Email' },
  { kind: 'text', name: 'external_id', label: 'External id' },
  {
    kind: 'select',
    name: 'deleted',
    label: 'Deleted',
    unset: 'Not deleted',
    options: [{ value: 'true', label: 'Include deleted' }],
  },
]

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

export function CustomersPage() {
  const list = useList<Customer>('/v1/customers', ['email', 'external_id', 'deleted'], { every_ms: 30_000 })
  const curl = useCurl('/v1/customers', FIRST_CUSTOMER)
  return (
    <>
      <PageHeader title="Customers" description="The people and companies that pay." />
      <Filters fields={FIELDS} end={<CsvExport list={list} columns={COLUMNS} name="customers.csv" />} />
      <DataTable
        label="Customers"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/customers/${id}`}
        empty={
          <EmptyState title="No customers yet" curl={curl}>
            Create a customer from your program, or with this command.
          </EmptyState>
        }
      />
    </>
  )
}
