// The progress of a recovery.
import { Progress } from '@mantine/core'
import { RotateCcw } from 'lucide-react'
import { useEffect } from 'react'
import type { WebhookRecovery } from '#sdk/index.ts'
import { Instant } from '../kit/Instant.tsx'
import { ErrorState } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { counted } from '../kit/counts.ts'

export function RecoveryNote({ id }: { id: string }) {
  const { data, error, refetch } = useAnswer<WebhookRecovery>(`/v1/webhook_recoveries/${id}`, undefined, {
    interval_ms: 2_000,
  })
  const endpoint_id = data?.status === 'completed' ? data.endpoint_id : undefined
  useEffect(() => {
    // Figures and deliveries on the page are stale once the recovery completes.
    if (endpoint_id !== undefined)
      void invalidate(`/v1/webhook_endpoints/${endpoint_id}`, `/webhook_endpoints/${endpoint_id}`)
  }, [endpoint_id])
  if (error !== null && data === undefined) return <ErrorState error={error} retry={refetch} />
  if (data === undefined) return null
  const { status, found, sent, since, until } = data
  const share = found === 0 ? (status === 'completed' ? 100 : 0) : (sent / found) * 100
  return (
    <div className="note" role="status">
      <RotateCcw size={16} aria-hidden />
      <div>
        <strong>
          Recovery <Status status={status} />
        </strong>
        {sent.toLocaleString()} of {counted(found, 'delivery', 'deliveries')} sent again, of those created
        between <Instant at={since} /> and <Instant at={until} />. Each delivery below shows whether it
        arrived.
        <Progress mt={8} size="sm" value={share} aria-label="Share of deliveries sent again" />
      </div>
    </div>
  )
}
