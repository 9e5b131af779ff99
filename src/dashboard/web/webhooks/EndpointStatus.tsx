// The status of an endpoint: `Failing` while every attempt fails.
import type { WebhookEndpoint } from '#sdk/index.ts'
import { Status } from '../kit/Status.tsx'

const DISABLED = { gone: 'Disabled: gone', failing: 'Disabled: failing', manual: 'Disabled' } as const

export function EndpointStatus({ endpoint, pill = false }: { endpoint: WebhookEndpoint; pill?: boolean }) {
  const { status, disabled_reason, failing_since } = endpoint
  if (status === 'disabled')
    return <Status status={status} resource="endpoint" pill label={DISABLED[disabled_reason ?? 'manual']} />
  if (failing_since !== null) return <Status status="failing" pill />
  return <Status status={status} resource="endpoint" pill={pill} label="Enabled" />
}
