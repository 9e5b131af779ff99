// Webhooks: the endpoints, and their delivery figures.
import { Button } from '@mantine/core'
import { Plus } from 'lucide-react'
import { useMemo } from 'react'
import type { WebhookEndpoint } from '#sdk/index.ts'
import { useDialogs } from '../dialogs.ts'
import type { Answers } from '../generated/answers.ts'
import { CREATED_COLUMN } from '../kit/columns.tsx'
import { curlOf } from '../kit/curl.ts'
import type { TableColumn } from '../kit/DataTable.tsx'
import { defineList } from '../kit/define-list.ts'
import { ListPage } from '../kit/ListPage.tsx'
import { Sparkline } from '../kit/Sparkline.tsx'
import { useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'
import { AddEndpointDialog } from '../webhooks/EndpointFields.tsx'
import { successRate } from '../webhooks/EndpointFigures.tsx'
import { EndpointStatus } from '../webhooks/EndpointStatus.tsx'

type EndpointSeries = Answers['GET /webhook_endpoints/series'][number]

/** `of`: the deliveries of an endpoint in the last 7 days. */
const columnsOf = (
  of: (id: string) => EndpointSeries['points'] | undefined,
): TableColumn<WebhookEndpoint>[] => [
  { title: 'URL', cell: ({ url }) => <span className="mono">{url}</span>, clip: true },
  {
    title: 'Status',
    cell: (endpoint) => <EndpointStatus endpoint={endpoint} />,
  },
  {
    title: 'Types',
    cell: ({ types }) => (
      <span title={types.join(', ')}>
        {types.slice(0, 2).join(', ')}
        {types.length > 2 && ` and ${types.length - 2} more`}
      </span>
    ),
    clip: true,
  },
  {
    title: 'Success, 7 days',
    align: 'end',
    cell: ({ id }) => successRate(totalsOf(of(id))),
  },
  {
    title: 'Failed attempts',
    align: 'end',
    cell: ({ id }) => total(of(id), 'failed_attempts')?.toLocaleString() ?? '–',
  },
  {
    title: 'Delivered, 7 days',
    cell: ({ id }) => (
      <div style={{ width: 120 }}>
        <Sparkline
          height={24}
          values={of(id)?.map(({ delivered }) => delivered) ?? []}
          label={`${total(of(id), 'delivered') ?? 0} delivered in the last 7 days`}
        />
      </div>
    ),
  },
  CREATED_COLUMN,
]

const ENDPOINTS = defineList({
  path: '/v1/webhook_endpoints',
  label: 'Webhook endpoints',
  columns: [],
  key: 'id',
  to: ({ id }) => `/webhooks/${id}`,
  interval_ms: 15_000,
  empty: {
    title: 'No endpoints yet',
    text: 'An endpoint is a URL of yours that receives events.',
    curl: curlOf('/v1/webhook_endpoints', {
      url: 'https://shop.example/webhooks',
      types: ['payment.*'],
    }),
  },
})

export function WebhooksPage() {
  const may_add = useMay('createWebhookEndpoint')
  const { opening, begin, props } = useDialogs<'add'>()
  const { data: series } = useAnswer<EndpointSeries[]>('/webhook_endpoints/series', undefined, {
    interval_ms: 60_000,
  })
  usePaletteActs(
    useMemo(() => (may_add ? [{ title: 'Add endpoint', run: () => begin('add') }] : []), [may_add, begin]),
  )
  const add = may_add && (
    <Button variant="filled" leftSection={<Plus size={14} />} onClick={() => begin('add')}>
      Add endpoint
    </Button>
  )
  const pointsOf = (id: string) => series?.find(({ endpoint_id }) => endpoint_id === id)?.points
  return (
    <ListPage
      of={{ ...ENDPOINTS, columns: columnsOf(pointsOf) }}
      title="Webhooks"
      description="Endpoints that receive your events. Requests are signed, and retried until they succeed."
      actions={add}
      empty_action={add}
    >
      <AddEndpointDialog key={opening} {...props('add')} />
    </ListPage>
  )
}

function totalsOf(points: EndpointSeries['points'] | undefined) {
  return {
    delivered: total(points, 'delivered') ?? 0,
    failed: total(points, 'failed') ?? 0,
    attempts_failed: total(points, 'failed_attempts') ?? 0,
  }
}

function total(
  points: EndpointSeries['points'] | undefined,
  name: 'delivered' | 'failed' | 'failed_attempts',
): number | undefined {
  return points?.reduce((sum, point) => sum + point[name], 0)
}
