// How far a recovery is.
import { Progress } from '@mantine/core'
import { RotateCcw } from 'lucide-react'
import type { WebhookRecovery } from '#sdk/index.ts'
import { Instant } from '../kit/Instant.tsx'
import { Failed } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { useAnswer } from '../queries.ts'

export function RecoveryNote({ id }: { id: string }) {
  const { data, error, refetch } = useAnswer<WebhookRecovery>(`/v1/webhook_recoveries/${id}`, undefined, {
    every_ms: 2_000,
  })
  if (error !== null && data === undefined) return <Failed error={error} retry={refetch} />
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
        {sent.toLocaleString()} of {found.toLocaleString()} deliveries sent again, of those created between{' '}
        <Instant at={since} /> and <Instant at={until} />.
        <Progress mt={8} size="sm" value={share} aria-label="Share of deliveries sent again" />
      </div>
    </div>
  )
}
