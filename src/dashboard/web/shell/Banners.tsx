// Banners on every page: operator access, switches of the database, pauses and emulators.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { CirclePause, Eye, FlaskConical } from 'lucide-react'
import { Instant } from '../kit/Instant.tsx'
import { humanize } from '../kit/statuses.ts'
import { MODE } from '../mode.ts'
import { SwitchBanner } from '../operations/recovery/SwitchBanner.tsx'
import { usePausedQueues } from '../operations/paused.ts'
import type { PauseRow } from '../operations/shapes.ts'
import { useOperationsStream } from '../operations/stream.ts'
import { useAnswer } from '../queries.ts'
import { useSession } from '../session.tsx'
import { useChooseTenant } from './tenant.ts'

export function Banners() {
  const { emulators, is_operator, role } = useSession()
  return (
    <aside aria-label="System state">
      {role === 'operator' && <OperatorAccessBanner />}
      {is_operator && <SwitchBanner />}
      {is_operator ? <PausedBanner /> : <TenantPauseBanner />}
      {emulators.length > 0 && MODE === 'live' && (
        <div className="banner" role="note">
          <FlaskConical size={14} aria-hidden />
          <span>
            No money moves:{' '}
            {LIST.format(
              emulators.map((name) => `${name.length <= 4 ? name.toUpperCase() : humanize(name)} emulator`),
            )}
            .
          </span>
        </div>
      )}
    </aside>
  )
}

/** Shown while an operator views a tenant without being a member. */
function OperatorAccessBanner() {
  const { tenant, tenants } = useSession()
  const choose = useChooseTenant()
  const [own] = tenants
  return (
    <div className="banner" data-tone="warn" role="note" aria-label="Operator">
      <Eye size={16} aria-hidden />
      <span>You are viewing {tenant?.name} as an operator. Your access is audited.</span>
      {own === undefined ? (
        <Link to="/ops/queues">Back to operations</Link>
      ) : (
        <Button size="compact-xs" onClick={() => void choose(own.id, '/', MODE)}>
          Back to {own.name}
        </Button>
      )}
    </div>
  )
}

const MAX_NAMED_PAUSES = 3

function PausedBanner() {
  useOperationsStream()
  const { data: pauses = [] } = useAnswer<PauseRow[]>('/ops/pauses', undefined, { interval_ms: 5_000 })
  const [first] = pauses
  if (first === undefined) return null
  const named = pauses.slice(0, MAX_NAMED_PAUSES).map(pauseText)
  const others = pauses.length - named.length
  return (
    <div className="banner" data-tone="warn" role="alert">
      <CirclePause size={16} aria-hidden />
      <span>
        Paused: {LIST.format(others > 0 ? [...named, `${others} more`] : named)}. Due jobs wait.{' '}
        {pauses.length === 1 && (
          <>
            {first.actor !== null && `${first.actor}, `}
            <Instant at={first.since} />
            {first.reason !== null && `: ${first.reason}`}.{' '}
          </>
        )}
        <Link to="/ops/queues">Go to queues</Link>
      </span>
    </div>
  )
}

/** The pauses of this tenant. Author and reason are only for operators. */
function TenantPauseBanner() {
  const paused_queues = usePausedQueues()
  if (paused_queues.length === 0) return null
  const what = paused_queues.some(({ queue }) => queue === null)
    ? 'all work of this tenant'
    : LIST.format(paused_queues.map(({ queue }) => queue ?? ''))
  return (
    <div className="banner" data-tone="warn" role="alert">
      <CirclePause size={16} aria-hidden />
      <span>Paused: {what}. New requests are accepted and wait until an operator resumes it.</span>
    </div>
  )
}

/** The scope of a pause as text: `queue payments of tenant acme`. */
export function pauseText({ queue, tenant, tenant_id }: PauseRow): string {
  const what = queue === null ? 'all queues' : `queue ${queue}`
  const tenant_name = tenant ?? tenant_id
  return tenant_name === null ? what : `${what} of tenant ${tenant_name}`
}

const LIST = new Intl.ListFormat('en')
