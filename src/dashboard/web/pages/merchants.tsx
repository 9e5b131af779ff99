// Merchants: the list.
import type { Merchant } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN, VERIFICATION_COLUMN } from '../kit/columns.tsx'
import { curlOf } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'

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

const MERCHANTS = defineList({
  path: '/v1/merchants',
  label: 'Merchants',
  filters: [
    {
      kind: 'flag',
      name: 'archived',
      label: 'Archived',
      default_label: 'Not archived',
      set: 'Only archived',
    },
  ],
  columns: COLUMNS,
  file: 'merchants.csv',
  key: 'id',
  to: ({ id }) => `/merchants/${id}`,
  interval_ms: 30_000,
  empty: {
    title: 'No merchants yet',
    text: 'Create a merchant from your program, or with this command.',
    curl: curlOf('/v1/merchants', {
      idempotency_key: 'merchant-1',
      legal_name: 'Analytical Engines Ltd',
      display_name: 'Engines',
      country: 'GB',
      support_email: 'help@engines.example',
    }),
  },
})

export function MerchantsPage() {
  return (
    <ListPage of={MERCHANTS} title="Merchants" description="The businesses that you accept payments for." />
  )
}
