// One delivery: its event, attempts, next attempt and responses.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Clock } from 'lucide-react'
import { useState } from 'react'
import type { WebhookDeliveryDetail, WebhookEndpoint } from '#sdk/index.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { sluice } from '../api.ts'
import { usePathParam } from '../address.ts'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Deadline } from '../kit/Deadline.tsx'
import { formatInstant, Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { ErrorPage } from '../kit/ErrorPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { attemptName, KIND_ICONS } from '../timeline/items.tsx'
import { Timeline, type TimelineItem } from '../timeline/Timeline.tsx'

export function WebhookDeliveryPage() {
  const id = usePathParam('id')
  const path = `/v1/webhook_deliveries/${id}` as const
  const query = useAnswer<WebhookDeliveryDetail>(path, undefined, { interval_ms: 3_000 })
  const { data: delivery, error, refetch } = query
  const endpoint_id = delivery?.endpoint_id
  const { data: endpoint } = useAnswer<WebhookEndpoint>(
    `/v1/webhook_endpoints/${endpoint_id ?? ''}`,
    undefined,
    { enabled: endpoint_id !== undefined },
  )
  const may_replay = useMay('replayWebhookDelivery')
  const [replaying, setReplaying] = useState(false)
  const parent = {
    to: endpoint_id === undefined ? '/webhooks' : `/webhooks/${endpoint_id}`,
    title: endpoint?.url ?? 'Webhooks',
  }
  if (error !== null && delivery === undefined)
    return <ErrorPage title="Delivery" parent={parent} error={error} retry={refetch} />
  return (
    <>
      <PageHeader
        title={`Delivery of ${delivery?.type ?? 'an event'}`}
        heading={
          delivery && (
            <span className="inline">
              {delivery.type} <Status status={delivery.status} pill />
            </span>
          )
        }
        parent={parent}
        read={query}
        description={delivery && <DeliverySummary delivery={delivery} />}
        actions={may_replay && delivery && <Button onClick={() => setReplaying(true)}>Replay</Button>}
      />
      <div className="columns">
        <div>
          <section className="section">
            <h2>Attempts</h2>
            {delivery && <Timeline items={timelineItems(delivery)} />}
          </section>
          <section className="section">
            <h2>Last responses</h2>
            <LastResponses delivery={delivery} />
          </section>
        </div>
        <div>
          <DeliveryFacts id={id} delivery={delivery} endpoint_url={endpoint?.url} />
          <section className="section">
            <h2 className="side-title">Payload</h2>
            {delivery?.payload === null ? (
              <p className="dim">The event has been deleted.</p>
            ) : (
              <Json value={delivery?.payload ?? {}} label="payload" />
            )}
          </section>
        </div>
      </div>
      <ReplayDialog
        opened={replaying}
        onClose={() => setReplaying(false)}
        id={id}
        endpoint_url={endpoint?.url}
      />
    </>
  )
}

function DeliveryFacts({
  id,
  delivery,
  endpoint_url,
}: {
  id: string
  delivery: WebhookDeliveryDetail | undefined
  endpoint_url: string | undefined
}) {
  return (
    <Facts
      facts={{
        Delivery: <Id id={id} />,
        Event:
          delivery &&
          (delivery.sequence === null ? (
            'A test event, not in the feed'
          ) : (
            <Link to={`/events/${delivery.event_id}`}>Number {delivery.sequence} of the feed</Link>
          )),
        Endpoint: delivery && (
          <Link to={`/webhooks/${delivery.endpoint_id}`}>{endpoint_url ?? delivery.endpoint_id}</Link>
        ),
        Attempts: delivery && attemptsOf(delivery),
        'Next attempt':
          delivery &&
          (delivery.next_attempt_at === null ? null : (
            <>
              {formatInstant(delivery.next_attempt_at)} (<Deadline at={delivery.next_attempt_at} />)
            </>
          )),
        Delivered: delivery && delivery.delivered_at !== null && <Instant at={delivery.delivered_at} />,
        Created: delivery && <Instant at={delivery.created_at} />,
      }}
    />
  )
}

function ReplayDialog({
  id,
  endpoint_url,
  ...dialog
}: {
  opened: boolean
  onClose: () => void
  id: string
  endpoint_url: string | undefined
}) {
  return (
    <ConfirmDialog
      {...dialog}
      title="Replay this delivery?"
      action="Replay"
      effect={
        <>
          The same event is sent again to <span className="mono">{endpoint_url ?? 'its endpoint'}</span>,
          which may have received it already.
        </>
      }
      act={(idempotency_key) => actResponse(sluice.webhookDeliveries.replay(id, {}, { idempotency_key }))}
      onDone={() => invalidate(`/v1/webhook_deliveries/${id}`)}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The replay is scheduled. Its attempt appears on this page.
        </ActResultText>
      )}
    />
  )
}

/** The outcome so far, and the next attempt. */
function DeliverySummary({
  delivery: { status, attempts, next_attempt_at, last_status_code, last_error },
}: {
  delivery: WebhookDeliveryDetail
}) {
  const failure =
    last_status_code === null ? (last_error ?? 'no response') : `status ${String(last_status_code)}`
  if (status === 'delivered') return 'The event was delivered.'
  if (status === 'skipped')
    return 'The event was not sent because the endpoint was disabled. To send it, recover the endpoint on its page.'
  if (status === 'failed') return `The delivery failed with ${failure} and is not retried automatically.`
  if (status === 'exhausted')
    return `All attempts failed, the last with ${failure}. Replay it once the receiver is fixed.`
  if (next_attempt_at === null) return 'The event is being sent.'
  return (
    <>
      {attempts > 0 && `The last attempt failed with ${failure}. `}The next attempt is{' '}
      <Deadline at={next_attempt_at} />, at {formatInstant(next_attempt_at)}.
    </>
  )
}

/** The number of scheduled attempts so far, and of manual attempts in the log. The log has only the latest attempts. */
function attemptsOf({ attempts, attempts_log }: WebhookDeliveryDetail): string {
  const by_hand = attempts_log.filter(({ manual }) => manual).length
  return by_hand === 0 ? String(attempts) : `${attempts}, and ${by_hand} by hand`
}

function timelineItems({ attempts_log, created_at, next_attempt_at }: WebhookDeliveryDetail): TimelineItem[] {
  return [
    { id: 'created', at: created_at, icon: KIND_ICONS.delivery, name: 'Delivery created' },
    ...attempts_log.map(({ at, duration_ms, status_code, error, response_excerpt, manual }, number) => ({
      id: `${at} ${number}`,
      at,
      ended_at: new Date(Date.parse(at) + duration_ms).toISOString(),
      icon: manual ? KIND_ICONS.person : KIND_ICONS.attempt,
      name: attemptName(number + 1),
      note: manual ? 'by hand' : undefined,
      outcome: status_code !== null && status_code >= 200 && status_code < 300 ? 'delivered' : 'failed',
      changed: status_code === null ? (error ?? 'No response') : `Status ${status_code}`,
      details: { status_code, error, duration_ms, response_excerpt },
    })),
    ...(next_attempt_at === null
      ? []
      : [
          {
            id: 'next',
            at: next_attempt_at,
            icon: Clock,
            name: 'Next attempt',
            outcome: 'scheduled',
            changed: formatInstant(next_attempt_at),
          },
        ]),
  ]
}

/** The last three responses with a body, the latest first. */
function LastResponses({ delivery }: { delivery: WebhookDeliveryDetail | undefined }) {
  const responses = (delivery?.attempts_log ?? [])
    .map((attempt, number) => ({ ...attempt, number: number + 1 }))
    .filter(({ response_excerpt }) => response_excerpt !== null && response_excerpt !== '')
    .slice(-3)
    .toReversed()
  if (delivery !== undefined && responses.length === 0)
    return <p className="dim">The receiver has sent no response text.</p>
  return responses.map(({ number, status_code, response_excerpt }) => (
    <figure key={number}>
      <figcaption className="dim">
        Attempt {number}: status {status_code}
      </figcaption>
      <pre className="excerpt">{response_excerpt}</pre>
    </figure>
  ))
}
