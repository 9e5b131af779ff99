// Columns of deliveries.
import type { WebhookDelivery } from '#sdk/index.ts'
import { ID_COLUMN, CREATED_COLUMN } from '../kit/columns.tsx'
import type { TableColumn } from '../kit/DataTable.tsx'
import { Deadline } from '../kit/Deadline.tsx'
import { Status } from '../kit/Status.tsx'

/** The last response of a delivery: an HTTP status, or the error. */
function LastResponse({ delivery: { last_status_code, last_error } }: { delivery: WebhookDelivery }) {
  if (last_status_code !== null) return <span className="figures">{last_status_code}</span>
  return <span className="dim">{last_error ?? '–'}</span>
}

export const deliveryColumns: TableColumn<WebhookDelivery>[] = [
  { title: 'Type', cell: ({ type }) => type, csv: ({ type }) => type },
  {
    title: 'Status',
    cell: ({ status, attempts }) => (
      <Status
        status={status}
        {...(status === 'pending' && attempts > 0 && { label: 'Pending, failed before' })}
      />
    ),
    csv: ({ status }) => status,
  },
  {
    title: 'Last response',
    cell: (delivery) => <LastResponse delivery={delivery} />,
    clip: true,
    csv: ({ last_status_code, last_error }) => last_status_code ?? last_error,
  },
  { title: 'Attempts', cell: ({ attempts }) => attempts, align: 'end', csv: ({ attempts }) => attempts },
  {
    title: 'Next attempt',
    cell: ({ next_attempt_at }) => <Deadline at={next_attempt_at} />,
    csv: ({ next_attempt_at }) => next_attempt_at,
  },
  {
    title: 'Sequence',
    cell: ({ sequence }) => sequence ?? <span className="dim">Test</span>,
    align: 'end',
    csv: ({ sequence }) => sequence,
  },
  ID_COLUMN,
  CREATED_COLUMN,
]
