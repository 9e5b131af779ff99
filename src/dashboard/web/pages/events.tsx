// Events: the feed, the latest first or by sequence.
import type { FeedEvent } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { EventSubject } from '../events/subjects.tsx'
import { ID_COLUMN, momentColumn } from '../kit/columns.tsx'
import { CsvExport } from '../kit/CsvExport.tsx'
import { FIRST_CUSTOMER, useCurl } from '../kit/curl.ts'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Filters, type FilterField } from '../kit/Filters.tsx'
import { useList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { useSession } from '../session.tsx'

const FIELDS: FilterField[] = [
  { kind: 'text', name: 'type', label: 'Type', placeholder: 'payment.*' },
  { kind: 'text', name: 'subject_id', label: 'Subject', placeholder: 'Id of a resource' },
  {
    kind: 'select',
    name: 'order',
    label: 'Order',
    unset: 'Newest first',
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
  ID_COLUMN,
  momentColumn('Happened', ({ created_at }) => created_at),
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
  const curl = useCurl('/v1/customers', FIRST_CUSTOMER)
  return (
    <>
      <PageHeader
        title="Events"
        description={
          live
            ? 'Everything that happened, newest first. New events appear on their own.'
            : 'Everything that happened, each event with its number in the feed.'
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
            Everything that happens to a resource is an event. This command creates the first one.
          </EmptyState>
        }
      />
    </>
  )
}
