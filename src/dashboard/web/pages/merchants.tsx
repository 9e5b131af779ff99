// Merchants: the list.
import type { Merchant } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN, VERIFICATION_COLUMN } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'

const FIELDS: FilterField[] = [
  {
    kind: 'select',
    name: 'archived',
    label: 'Archived',
    unset: 'Not archived',
    options: [{ value: 'true', label: 'Only archived' }],
  },
]

const COLUMNS: TableColumn<Merchant>[] = [
  {
    title: 'Name',
    cell: ({ display_name }) => display_name,
    clip: true,
    csv: ({ display_name }) => display_name,
  },
  {
    title: 'Legal name',
    cell: ({ legal_name }) => legal_name,
    clip: true,
    csv: ({ legal_name }) => legal_name,
  },
  { title: 'Country', cell: ({ country }) => country, csv: ({ country }) => country },
  {
    title: 'Support email',
    cell: ({ support_email }) => support_email,
    clip: true,
    csv: ({ support_email }) => support_email,
  },
  VERIFICATION_COLUMN,
  ID_COLUMN,
  CREATED_COLUMN,
]

export function MerchantsPage() {
  const list = useList<Merchant>('/v1/merchants', ['archived'], { every_ms: 30_000 })
  const curl = useCurl('/v1/merchants', {
    idempotency_key: 'merchant-1',
    legal_name: 'Analytical Engines Ltd',
    display_name: 'Engines',
    country: 'GB',
    support_email: 'help@engines.example',
  })
  return (
    <>
      <PageHeader title="Merchants" description="The businesses that you take payments for." />
      <Filters fields={FIELDS} end={<CsvExport list={list} columns={COLUMNS} name="merchants.csv" />} />
      <DataTable
        label="Merchants"
        list={list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/merchants/${id}`}
        empty={
          <EmptyState title="No merchants yet" curl={curl}>
            Create a merchant from your program, or with this command.
          </EmptyState>
        }
      />
    </>
  )
}
