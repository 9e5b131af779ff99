// Customers: the list.
import type { Customer } from '#sdk/index.ts'
import { CsvExport } from '../kit/CsvExport.tsx'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState, useCurl } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { customerName } from '../parties/PartyName.tsx'

const FIELDS: FilterField[] = [
  { kind: 'text', name: 'email', label: 'Email' },
  { kind: 'text', name: 'external_id', label: 'External id' },
  {
    kind: 'select',
    name: 'deleted',
    label: 'Deleted',
    options: [{ value: 'true', label: 'Also deleted' }],
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
  {
    title: 'Verification',
    cell: ({ kyc_status }) => <Status status={kyc_status} noun="kyc" />,
    csv: ({ kyc_status }) => kyc_status,
  },
  { title: 'Id', cell: ({ id }) => <Id id={id} short />, csv: ({ id }) => id },
  {
    title: 'Created',
    cell: ({ created_at }) => <Instant at={created_at} />,
    csv: ({ created_at }) => created_at,
  },
]

export function CustomersPage() {
  const list = useList<Customer>('/v1/customers', ['email', 'external_id', 'deleted'], { every_ms: 30_000 })
  const curl = useCurl('/v1/customers', { idempotency_key: 'dashboard-customer-1', email: 'ada@example.com' })
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
            A customer is made by your program, or by this command.
          </EmptyState>
        }
      />
    </>
  )
}
