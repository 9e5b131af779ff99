// One webhook endpoint: its status, acts, figures and deliveries.
import { Button } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { WebhookEndpoint, WebhookEndpointStats } from '#sdk/index.ts'
import { useAddressSearch, usePathParam } from '../address.ts'
import { useDialogs } from '../dialogs.ts'
import { defineList } from '../kit/define-list.ts'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { ListView } from '../kit/ListPage.tsx'
import { ErrorPage } from '../kit/ErrorPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'
import { deliveryColumns } from '../webhooks/deliveries.tsx'
import { DisabledNote } from '../webhooks/DisabledNote.tsx'
import {
  DeleteEndpointDialog,
  RecoverDialog,
  RotateSecretDialog,
  SwitchDialog,
  TestDialog,
} from '../webhooks/EndpointActs.tsx'
import { EditEndpointDialog } from '../webhooks/EndpointFields.tsx'
import { EndpointFigures } from '../webhooks/EndpointFigures.tsx'
import { EndpointStatus } from '../webhooks/EndpointStatus.tsx'
import { RecoveryNote } from '../webhooks/RecoveryNote.tsx'

type EndpointAct = 'test' | 'rotate' | 'switch' | 'edit' | 'recover' | 'delete'

const DELIVERIES = defineList({
  path: '/v1/webhook_endpoints/{id}/deliveries',
  label: 'Deliveries',
  filters: [
    { kind: 'choice', name: 'status', label: 'Status' },
    { kind: 'text', name: 'type', label: 'Type', placeholder: 'payment.*' },
    { kind: 'text', name: 'event_id', label: 'Event' },
  ],
  columns: deliveryColumns,
  file: 'deliveries.csv',
  key: 'id',
  to: ({ id }) => `/webhooks/deliveries/${id}`,
  interval_ms: 5_000,
  empty: {
    title: 'No deliveries yet',
    text: 'New events are sent to this endpoint. Send a test event to check that they arrive.',
  },
})

export function WebhookEndpointPage() {
  const id = usePathParam('id')
  const [search] = useAddressSearch()
  const path = `/v1/webhook_endpoints/${id}` as const
  const query = useAnswer<WebhookEndpoint>(path, undefined, { interval_ms: 10_000 })
  const { data: endpoint, error, refetch } = query
  const stats = useAnswer<WebhookEndpointStats>(`${path}/stats`, undefined, { interval_ms: 10_000 })
  const { opening, begin, props } = useDialogs<EndpointAct>()
  const acts = useActs(endpoint)
  usePaletteActs(useMemo(() => acts.map(([act, title]) => ({ title, run: () => begin(act) })), [acts, begin]))

  const parent = { to: '/webhooks', title: 'Webhooks' }
  if (error !== null && endpoint === undefined)
    return <ErrorPage title="Webhook endpoint" parent={parent} error={error} retry={refetch} />
  return (
    <>
      <PageHeader
        title={endpoint?.url ?? 'Webhook endpoint'}
        heading={
          endpoint && (
            <span className="inline">
              {endpoint.url} <EndpointStatus endpoint={endpoint} pill />
            </span>
          )
        }
        parent={parent}
        read={query}
        description={endpoint?.description ?? undefined}
        actions={acts.map(([act, title]) => (
          <Button
            key={act}
            {...(act === 'delete' && { variant: 'subtle', color: 'red' })}
            onClick={() => begin(act)}
          >
            {title}
          </Button>
        ))}
      />
      {endpoint?.status === 'disabled' && (
        <DisabledNote
          endpoint={endpoint}
          onEnable={() => begin('switch')}
          onRecover={() => begin('recover')}
        />
      )}
      {search['recovery'] !== undefined && <RecoveryNote id={search['recovery']} />}
      <EndpointFigures id={id} stats={stats} />
      <section className="section">
        <h2>Details</h2>
        <EndpointFacts endpoint={endpoint} stats={stats.error === null ? stats.data : (stats.data ?? null)} />
      </section>
      <section className="section">
        <h2>Deliveries</h2>
        <ListView of={DELIVERIES} id={id} />
      </section>
      {endpoint && (
        <div key={opening}>
          <EndpointDialogs props={props} endpoint={endpoint} pending={stats.data?.pending} />
        </div>
      )}
    </>
  )
}

function EndpointDialogs({
  props,
  endpoint,
  pending,
}: {
  props: ReturnType<typeof useDialogs<EndpointAct>>['props']
  endpoint: WebhookEndpoint
  pending: number | undefined
}) {
  const navigate = useNavigate()
  const [, change] = useAddressSearch()
  return (
    <>
      <TestDialog {...props('test')} endpoint={endpoint} />
      <RotateSecretDialog {...props('rotate')} endpoint={endpoint} />
      <SwitchDialog {...props('switch')} endpoint={endpoint} pending={pending} />
      <EditEndpointDialog {...props('edit')} endpoint={endpoint} />
      <RecoverDialog
        {...props('recover')}
        endpoint={endpoint}
        onStarted={(recovery) => change({ recovery }, { replace: true })}
      />
      <DeleteEndpointDialog
        {...props('delete')}
        endpoint={endpoint}
        onDeleted={() => void navigate({ to: '/webhooks' })}
      />
    </>
  )
}

/** The acts that the endpoint's status and the user's role allow, most used first. */
function useActs(endpoint: WebhookEndpoint | undefined): [act: EndpointAct, title: string][] {
  const may_test = useMay('testWebhookEndpoint')
  const may_rotate = useMay('rotateWebhookSecret')
  const may_update = useMay('updateWebhookEndpoint')
  const may_recover = useMay('recoverWebhookEndpoint')
  const may_delete = useMay('deleteWebhookEndpoint')
  const status = endpoint?.status
  return useMemo(() => {
    if (status === undefined) return []
    const acts: [EndpointAct, string, boolean][] = [
      ['test', 'Send test event', may_test],
      ['recover', 'Recover', may_recover && status === 'enabled'],
      ['edit', 'Edit endpoint', may_update],
      ['rotate', 'Rotate secret', may_rotate],
      ['switch', 'Disable', may_update && status === 'enabled'],
      ['delete', 'Delete endpoint', may_delete],
    ]
    return acts.filter(([, , may]) => may).map(([act, title]) => [act, title])
  }, [status, may_test, may_rotate, may_update, may_recover, may_delete])
}

function EndpointFacts({
  endpoint,
  stats,
}: {
  endpoint: WebhookEndpoint | undefined
  /** The figures of the endpoint. Null: they could not be read. */
  stats: WebhookEndpointStats | null | undefined
}) {
  const headers = Object.keys(endpoint?.headers ?? {})
  return (
    <Facts
      facts={{
        Id: endpoint && <Id id={endpoint.id} />,
        Types: endpoint && <span className="mono">{endpoint.types.join(', ')}</span>,
        Order: endpoint && (endpoint.ordered ? 'One at a time, by sequence' : 'Not ordered'),
        'Requests at once': endpoint && `At most ${endpoint.max_in_flight}`,
        'Requests per second':
          endpoint && (endpoint.rate_per_s === null ? 'No limit' : `At most ${endpoint.rate_per_s}`),
        'Your headers': headers.length > 0 && <span className="mono">{headers.join(', ')}</span>,
        'Failing since': endpoint && <Instant at={endpoint.failing_since} none="not failing" />,
        'Last success': stats && <Instant at={stats.last_success_at} none="never" />,
        'Last failure': stats && <Instant at={stats.last_failure_at} none="never" />,
        Created: endpoint && <Instant at={endpoint.created_at} />,
        Changed: endpoint && <Instant at={endpoint.updated_at} />,
      }}
    />
  )
}
