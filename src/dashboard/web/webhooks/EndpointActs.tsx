// The dialogs of an endpoint's acts.
import { NativeSelect, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { EventType, WebhookEndpoint } from '#sdk/index.ts'
import { actResponse, ActResultText, notifyActDone } from '../kit/ActResult.tsx'
import { sluice } from '../api.ts'
import { useValueAtOpening } from '../dialogs.ts'
import { EVENT_PATTERNS } from '../generated/event-patterns.ts'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { formatInstant } from '../kit/Instant.tsx'
import { invalidate } from '../queries.ts'
import { NewSecret } from './NewSecret.tsx'
import { counted } from '../kit/counts.ts'

type ActProps = { opened: boolean; onClose: () => void; endpoint: WebhookEndpoint }

const refreshEndpoints = () => invalidate('/v1/webhook_endpoints', '/webhook_endpoints')

export function TestDialog({ opened, onClose, endpoint: { id, url } }: ActProps) {
  const [type, setType] = useState('')
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Send a test event?"
      action="Send test event"
      effect={
        <>
          One event with example data is sent once to <span className="mono">{url}</span>. It is not in the
          feed and not in the statistics.
        </>
      }
      act={(idempotency_key) => {
        const body = type === '' ? {} : { type: type as EventType }
        return actResponse(sluice.webhookEndpoints.test(id, body, { idempotency_key }))
      }}
      onDone={refreshEndpoints}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The test was accepted. <Link to={`/webhooks/deliveries/${result.data.id}`}>See the delivery</Link>
        </ActResultText>
      )}
    >
      <NativeSelect
        label="Type"
        value={type}
        onChange={(event) => setType(event.currentTarget.value)}
        data={[
          { value: '', label: 'Any type that the endpoint receives' },
          ...EVENT_PATTERNS.filter((pattern) => !pattern.endsWith('*')),
        ]}
      />
    </ConfirmDialog>
  )
}

const GRACE_OPTIONS = [
  { value: '0', label: 'Not at all: it leaked' },
  { value: '3600', label: 'For an hour' },
  { value: '86400', label: 'For a day' },
  { value: '604800', label: 'For a week' },
]

export function RotateSecretDialog({ opened, onClose, endpoint: { id } }: ActProps) {
  const [grace_s, setGrace] = useState('86400')
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Rotate the secret?"
      action="Rotate secret"
      effect="A new secret signs from now on. While the old one also signs, each request carries both signatures, and receivers may check either."
      act={(idempotency_key) =>
        actResponse(
          sluice.webhookEndpoints.rotateSecret(id, { grace_s: Number(grace_s) }, { idempotency_key }),
        )
      }
      shown_once
      onDone={refreshEndpoints}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          <NewSecret secret={result.data.secret} />
        </ActResultText>
      )}
    >
      <NativeSelect
        label="The old secret also signs"
        data={GRACE_OPTIONS}
        value={grace_s}
        onChange={(event) => setGrace(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}

/** Disables an enabled endpoint, or enables a disabled one. `pending`: the number of waiting deliveries. */
export function SwitchDialog({
  opened,
  onClose,
  endpoint,
  pending,
}: ActProps & { pending: number | undefined }) {
  const { id, url, status } = useValueAtOpening(opened, endpoint)
  const disables = status === 'enabled'
  const action = disables ? 'Disable' : 'Enable'
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`${action} this endpoint?`}
      action={action}
      {...(disables && { tone: 'bad' as const })}
      effect={
        disables ? (
          <>
            Nothing more is sent to <span className="mono">{url}</span>.{' '}
            {pending !== undefined &&
              pending > 0 &&
              `${counted(pending, 'waiting delivery is', 'waiting deliveries are')} skipped. `}
            Events are skipped while it is disabled; you can recover them later.
          </>
        ) : (
          <>
            New events are sent to <span className="mono">{url}</span>. Skipped events are not sent until you
            recover them.
          </>
        )
      }
      act={() =>
        actResponse(sluice.webhookEndpoints.update(id, { status: disables ? 'disabled' : 'enabled' }))
      }
      onDone={refreshEndpoints}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The endpoint is {result.data.status}.
        </ActResultText>
      )}
    />
  )
}

export function RecoverDialog({
  opened,
  onClose,
  endpoint: { id, url },
  onStarted,
}: ActProps & { onStarted: (recovery_id: string) => void }) {
  const [since, setSince] = useState(() => localMinute(Date.now() - 86_400_000))
  const [until, setUntil] = useState('')
  const from = new Date(since)
  const to = until === '' ? null : new Date(until)
  const valid = [from, to].every((each) => each === null || !Number.isNaN(each.getTime()))
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Recover deliveries?"
      action="Recover"
      ready={valid}
      effect={
        <>
          Everything that was not delivered since {valid ? formatInstant(from.toISOString()) : 'then'} is sent
          again to <span className="mono">{url}</span>: deliveries that failed, were exhausted or skipped, or
          wait after a failure.
        </>
      }
      act={(idempotency_key) => {
        const body = { since: from.toISOString(), until: to === null ? null : to.toISOString() }
        return actResponse(sluice.webhookEndpoints.recover(id, body, { idempotency_key }))
      }}
      onDone={({ data }) => {
        onStarted(data.id)
        return refreshEndpoints()
      }}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The recovery has started. The page shows its progress.
        </ActResultText>
      )}
    >
      <TextInput
        type="datetime-local"
        label="Since"
        value={since}
        onChange={(event) => setSince(event.currentTarget.value)}
      />
      <TextInput
        type="datetime-local"
        label="Until"
        description="Leave empty for everything up to now."
        value={until}
        onChange={(event) => setUntil(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}

export function DeleteEndpointDialog({
  opened,
  onClose,
  endpoint: { id, url },
  onDeleted,
}: ActProps & { onDeleted: () => void }) {
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Delete this endpoint?"
      action="Delete endpoint"
      tone="bad"
      effect={
        <>
          Nothing more is sent to <span className="mono">{url}</span>, and its deliveries can no longer be
          read. This cannot be undone.
        </>
      }
      act={() => actResponse(sluice.webhookEndpoints.delete(id))}
      onDone={async (result) => {
        notifyActDone('Endpoint deleted.', result)
        onDeleted()
        await refreshEndpoints()
      }}
    />
  )
}

/** A time in the format of a `datetime-local` field. */
function localMinute(ms: number): string {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
  return at.toISOString().slice(0, 16)
}
