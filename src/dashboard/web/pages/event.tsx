// One event: its data and its deliveries.
import type { FeedEvent, WebhookDelivery, WebhookEndpoint } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { EventSubject } from '../events/subjects.tsx'
import { DataTable, type TableColumn } from '../kit/DataTable.tsx'
import { Facts } from '../kit/Facts.tsx'
import { ErrorPage } from '../kit/ErrorPage.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { singlePageList } from '../kit/list.ts'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { useAnswer } from '../queries.ts'
import { deliveryColumns } from '../webhooks/deliveries.tsx'

export function EventPage() {
  const id = usePathParam('id')
  const { data: event, error, refetch } = useAnswer<FeedEvent>(`/v1/events/${id}`)
  const deliveries = useAnswer<WebhookDelivery[]>(`/events/${id}/deliveries`, undefined, {
    interval_ms: 5_000,
  })
  const { data: endpoints } = useAnswer<WebhookEndpoint[]>('/v1/webhook_endpoints', { limit: 100 })
  const parent = { to: '/events', title: 'Events' }
  if (error !== null && event === undefined)
    return <ErrorPage title="Event" parent={parent} error={error} retry={refetch} />
  const urlOf = (endpoint_id: string) =>
    endpoints?.find((each) => each.id === endpoint_id)?.url ?? endpoint_id
  const columns: TableColumn<WebhookDelivery>[] = [
    {
      title: 'Endpoint',
      cell: ({ endpoint_id }) => <span className="mono">{urlOf(endpoint_id)}</span>,
      clip: true,
    },
    ...deliveryColumns.filter(({ title }) =>
      ['Status', 'Last response', 'Attempts', 'Next attempt', 'Created'].includes(title),
    ),
  ]
  return (
    <>
      <PageHeader title={event?.type ?? 'Event'} parent={parent} />
      <div className="columns">
        <section className="section">
          <h2>Data</h2>
          <p className="dim">The resource at the time of the event.</p>
          <Json value={event?.data ?? {}} label="data" />
        </section>
        <Facts
          facts={{
            Id: <Id id={id} />,
            Resource: event && <EventSubject type={event.subject_type} id={event.subject_id} full />,
            Sequence: event && (event.sequence ?? 'Not in the feed yet'),
            Happened: event && <Instant at={event.created_at} />,
          }}
        />
      </div>
      <section className="section">
        <h2>Deliveries</h2>
        <DataTable
          label="Deliveries"
          list={singlePageList(deliveries, deliveries.data)}
          columns={columns}
          rowKey={(delivery) => delivery.id}
          to={(delivery) => `/webhooks/deliveries/${delivery.id}`}
          paged={false}
          empty={
            <EmptyState title="Not sent anywhere">
              No endpoint was subscribed to this type when the event happened, or its deliveries have been
              deleted.
            </EmptyState>
          }
        />
      </section>
    </>
  )
}
