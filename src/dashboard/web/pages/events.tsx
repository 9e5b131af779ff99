// Events: the feed, the latest first or by sequence.
import type { FeedEvent } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { EventSubject } from '../events/subjects.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState, useCurl } from '../kit/states.tsx'
import { useSession } from '../session.tsx'

const FIELDS: FilterField[] = [
  { kind: 'text', name: 'type', label: 'Type', placeholder: 'payment.*' },
  { kind: 'text', name: 'subject_id', label: 'Subject', placeholder: 'The id of a resource' },
  {
    kind: 'select',
    name: 'order',
    label: 'Order',
    unset: 'Latest first',
    options: [{ value: 'sequence', label: 'By sequence' }],
  },
]
const PAGE_SIZE = 25

const COLUMNS: TableColumn<FeedEvent>[] = [
  { title: 'Type', cell: ({ type }) => type, csv: ({ type }) => type },
  {
    title: 'Subject',
    cell: ({ subject_type, subject_id }) => <EventSubject type={subject_type} id={subject_id} />,
    csv: ({ subject_id }) => subject_id,
  },
  { title: 'Sequence', cell: ({ sequence }) => sequence, align: 'end', csv: ({ sequence }) => sequence },
  { title: 'Id', cell: ({ id }) => <Id id={id} short />, csv: ({ id }) => id },
  {
    title: 'Happened',
    cell: ({ created_at }) => <Instant at={created_at} />,
    csv: ({ created_at }) => created_at,
  },
]

export function EventsPage() {
  const { role } = useSession()
  const [{ order, before, after }] = useAddressSearch()
  const by_sequence = order === 'sequence'
  // What operators read of a tenant is on record, so they do not read it over and over.
  const live = !by_sequence && before === undefined && after === undefined && role !== 'operator'
  const list = useList<FeedEvent>(by_sequence ? '/v1/events' : '/events', ['type', 'subject_id'], {
    limit: PAGE_SIZE,
    ...(live && { every_ms: 4_000 }),
  })
  // The feed always leads on, to what will happen.
  const ended = list.rows !== undefined && list.rows.length < PAGE_SIZE
  const curl = useCurl('/v1/customers', { idempotency_key: 'dashboard-customer-1', email: 'ada@example.com' })
  return (
    <>
      <PageHeader
        title="Events"
        description={
          live
            ? 'All that happened, the latest first. New ones show up by themselves.'
            : 'All that happened, each with its number in the feed.'
        }
      />
      <Filters fields={FIELDS} end={<CsvExport list={list} columns={COLUMNS} name="events.csv" />} />
      <DataTable
        label="Events"
        list={ended ? { ...list, goNext: undefined } : list}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/events/${id}`}
        empty={
          <EmptyState title="No events yet" curl={curl}>
            Whatever happens to a resource is an event. This command makes the first one.
          </EmptyState>
        }
      />
    </>
  )
}
