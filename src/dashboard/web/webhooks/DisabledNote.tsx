// The note on the page of a disabled endpoint: the reason, and what to do.
import { Button } from '@mantine/core'
import { CircleSlash } from 'lucide-react'
import type { WebhookEndpoint } from '#sdk/index.ts'
import { Instant } from '../kit/Instant.tsx'
import { useMay } from '../session.tsx'

const REASONS = {
  gone: 'It responded with 410 Gone, which requests that nothing more is sent.',
  failing: 'All deliveries failed for five days.',
  manual: 'Someone disabled it.',
} as const

function disabledReason({ disabled_reason }: WebhookEndpoint): string {
  return REASONS[disabled_reason ?? 'manual']
}

export function DisabledNote({
  endpoint,
  onEnable,
  onRecover,
}: {
  endpoint: WebhookEndpoint
  onEnable: () => void
  onRecover: () => void
}) {
  const may_change = useMay('updateWebhookEndpoint')
  const may_recover = useMay('recoverWebhookEndpoint')
  return (
    <div className="note" data-tone="bad" role="alert">
      <CircleSlash size={20} aria-hidden />
      <div>
        <strong>This endpoint is disabled: nothing is sent there</strong>
        {disabledReason(endpoint)} Last changed <Instant at={endpoint.updated_at} />. Events that happen while
        it is disabled are skipped, and enabling it does not send them.
        {endpoint.disabled_reason !== 'manual' && ' Fix the receiver and send it a test event first.'} Then
        enable it and recover what was missed.
        <div className="inline">
          {may_change && (
            <Button variant="filled" onClick={onEnable}>
              Enable
            </Button>
          )}
          {may_recover && <Button onClick={onRecover}>Recover</Button>}
        </div>
      </div>
    </div>
  )
}
