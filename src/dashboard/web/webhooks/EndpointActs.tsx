// The dialogs of what can be done to an endpoint.
import { NativeSelect, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { EventType, WebhookEndpoint } from '#sdk/index.ts'
import { acted, ActedOutcome, noteActed } from '../kit/Acted.tsx'
import { sluice } from '../api.ts'
import { useAsOpened } from '../dialogs.ts'
import { EVENT_PATTERNS } from '../generated/event-patterns.ts'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { formatInstant } from '../kit/Instant.tsx'
import { invalidate } from '../queries.ts'
import { SecretOnce } from './SecretOnce.tsx'

type ActProps = { opened: boolean; onClose: () => void; endpoint: WebhookEndpoint }

const readAgain = () => invalidate('/v1/webhook_endpoints', '/webhook_endpoints')

export function TestDialog({ opened, onClose, endpoint: { id, url } }: ActProps) {
  const [type, setType] = useState('')
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Send a test event?"
      action="Send test event"
      does={
        <>
          One event with example data is sent once to <span className="mono">{url}</span>. It is not in the
          feed and not counted in any statistics.
        </>
      }
      act={(idempotency_key) => {
        const body = type === '' ? {} : { type: type as EventType }
        return acted(sluice.webhookEndpoints.test(id, body, { idempotency_key }))
      }}
      onDone={readAgain}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          The test is on its way. <Link to={`/webhooks/deliveries/${asked.data.id}`}>See the delivery</Link>
        </ActedOutcome>
      )}
    >
      <NativeSelect
        label="Type"
        value={type}
        onChange={(event) => setType(event.currentTarget.value)}
        data={[
          { value: '', label: 'Any that the endpoint receives' },
          ...EVENT_PATTERNS.filter((pattern) => !pattern.endsWith('*')),
        ]}
      />
    </ConfirmDialog>
  )
}

const GRACES = [
  { value: '0', label: 'Not at all: it has leaked' },
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
      does="A new secret signs from now on. While the old one also signs, each request carries both signatures, and receivers may check either."
      act={(idempotency_key) =>
        acted(sluice.webhookEndpoints.rotateSecret(id, { grace_s: Number(grace_s) }, { idempotency_key }))
      }
      shown_once
      onDone={readAgain}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          <SecretOnce secret={asked.data.secret} />
        </ActedOutcome>
      )}
    >
      <NativeSelect
        label="The old secret also signs"
        data={GRACES}
        value={grace_s}
        onChange={(event) => setGrace(event.currentTarget.value)}
      />
    </ConfirmDialog>
  )
}

/** Disables an endpoint that is enabled, and enables one that is not. `pending`: how many deliveries wait. */
export function SwitchDialog({
  opened,
  onClose,
  endpoint,
  pending,
}: ActProps & { pending: number | undefined }) {
  const { id, url, status } = useAsOpened(opened, endpoint)
  const disables = status === 'enabled'
  const action = disables ? 'Disable' : 'Enable'
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`${action} this endpoint?`}
      action={action}
      {...(disables && { tone: 'bad' as const })}
      does={
        disables ? (
          <>
            Nothing more is sent to <span className="mono">{url}</span>.{' '}
            {pending !== undefined &&
              pending > 0 &&
              `${pending.toLocaleString()} waiting deliveries are skipped. `}
            Events that happen while it is disabled are skipped too; you can recover them later.
          </>
        ) : (
          <>
            Events that happen from now on are sent to <span className="mono">{url}</span>. What was skipped
            is not sent until you recover it.
          </>
        )
      }
      act={() => acted(sluice.webhookEndpoints.update(id, { status: disables ? 'disabled' : 'enabled' }))}
      onDone={readAgain}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          The endpoint is {asked.data.status}.
        </ActedOutcome>
      )}
    />
  )
}

export function RecoverDialog({
  opened,
  onClose,
  endpoint: { id, url },
  onBegun,
}: ActProps & { onBegun: (recovery_id: string) => void }) {
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
      does={
        <>
          Everything that was not delivered since {valid ? formatInstant(from.toISOString()) : 'then'} is sent
          again to <span className="mono">{url}</span>: deliveries that failed, were exhausted or skipped, or
          wait after a failure.
        </>
      }
      act={(idempotency_key) => {
        const body = { since: from.toISOString(), until: to === null ? null : to.toISOString() }
        return acted(sluice.webhookEndpoints.recover(id, body, { idempotency_key }))
      }}
      onDone={({ data }) => {
        onBegun(data.id)
        return readAgain()
      }}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          The recovery has started. The page shows its progress.
        </ActedOutcome>
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
      does={
        <>
          Nothing more is sent to <span className="mono">{url}</span>, and its deliveries can no longer be
          read. This cannot be undone.
        </>
      }
      act={() => acted(sluice.webhookEndpoints.delete(id))}
      onDone={async (asked) => {
        noteActed('Endpoint deleted.', asked)
        onDeleted()
        await readAgain()
      }}
    />
  )
}

/** A moment as a `datetime-local` field has it. */
function localMinute(ms: number): string {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
  return at.toISOString().slice(0, 16)
}
