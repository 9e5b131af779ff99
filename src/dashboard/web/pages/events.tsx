// Events: the feed, newest first or by sequence.
import type { FeedEvent } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { EventSubject } from '../events/subjects.tsx'
import { ID_COLUMN, timeColumn } from '../kit/columns.tsx'
import { curlOf, FIRST_CUSTOMER } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { useList } from '../kit/list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { useSession } from '../session.tsx'

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
  timeColumn('Happened', ({ created_at }) => created_at),
]

const EVENTS = defineList({
  path: '/events',
  label: 'Events',
  filters: [
    { kind: 'text', name: 'type', label: 'Type', placeholder: 'payment.*' },
    { kind: 'text', name: 'subject_id', label: 'Subject', placeholder: 'Id of a resource' },
    {
      kind: 'select',
      name: 'order',
      label: 'Order',
      default_label: 'Newest first',
      options: [{ value: 'sequence', label: 'By sequence' }],
      // The order is not a parameter of the API: it selects one of two lists.
      toParameters: () => ({}),
    },
  ],
  columns: COLUMNS,
  file: 'events.csv',
  key: 'id',
  to: ({ id }) => `/events/${id}`,
  limit: PAGE_SIZE,
  empty: {
    title: 'No events yet',
    text: 'Everything that happens to a resource is an event. This command creates the first one.',
    curl: curlOf('/v1/customers', FIRST_CUSTOMER),
  },
})

export function EventsPage() {
  const { role } = useSession()
  const [{ order, before, after }] = useAddressSearch()
  const by_sequence = order === 'sequence'
  // The access of operators is recorded, so their pages do not poll.
  const live = !by_sequence && before === undefined && after === undefined && role !== 'operator'
  const list = useList({
    ...EVENTS,
    ...(by_sequence && { path: '/v1/events' }),
    ...(live && { interval_ms: 4_000 }),
  })
  // The feed always has a next page, for future events. The list ends at the first short page.
  const ended = list.rows !== undefined && list.rows.length < PAGE_SIZE
  return (
    <ListPage
      of={EVENTS}
      list={ended ? { ...list, goNext: undefined } : list}
      exported={list}
      title="Events"
      description={
        live
          ? 'All events, newest first. New events appear automatically.'
          : 'All events, each with its sequence number in the feed.'
      }
    />
  )
}
