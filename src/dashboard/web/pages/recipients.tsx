// Recipients: the list.
import type { Recipient } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN, CURRENCY_COLUMN, VERIFICATION_COLUMN } from '../kit/columns.tsx'
import { curlOf } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { humanize } from '../kit/statuses.ts'

const COLUMNS: TableColumn<Recipient>[] = [
  { title: 'Name', cell: ({ name }) => name, clip: true, csv: ({ name }) => name },
  { title: 'Email', cell: ({ email }) => email ?? '–', clip: true, csv: ({ email }) => email },
  { title: 'Type', cell: ({ type }) => humanize(type), csv: ({ type }) => type },
  CURRENCY_COLUMN,
  { title: 'Country', cell: ({ country }) => country, csv: ({ country }) => country },
  VERIFICATION_COLUMN,
  ID_COLUMN,
  CREATED_COLUMN,
]

const RECIPIENTS = defineList({
  path: '/v1/recipients',
  label: 'Recipients',
  filters: [
    { kind: 'text', name: 'email', label: 'Email' },
    { kind: 'choice', name: 'type', label: 'Type' },
    { kind: 'text', name: 'currency', label: 'Currency', placeholder: 'usd' },
    {
      kind: 'flag',
      name: 'archived',
      label: 'Archived',
      default_label: 'Not archived',
      set: 'Only archived',
    },
  ],
  columns: COLUMNS,
  file: 'recipients.csv',
  key: 'id',
  to: ({ id }) => `/recipients/${id}`,
  interval_ms: 30_000,
  empty: {
    title: 'No recipients yet',
    text: 'Create a recipient from your program, or with this command.',
    curl: curlOf('/v1/recipients', {
      idempotency_key: 'recipient-1',
      name: 'Grace Hopper',
      type: 'account',
      currency: 'usd',
      country: 'US',
      destination: 'acct_success',
    }),
  },
})

export function RecipientsPage() {
  return <ListPage of={RECIPIENTS} title="Recipients" description="The people and companies that you pay." />
}
