// What must be known on every page: that no money moves, and which queues are paused.
import { Link } from '@tanstack/react-router'
import { CirclePause, FlaskConical } from 'lucide-react'
import { inWords } from '../kit/statuses.ts'
import { useAnswer } from '../queries.ts'
import { useSession } from '../session.tsx'

export function Banners() {
  const { emulators, is_operator } = useSession()
  return (
    <aside aria-label="State of the system">
      {is_operator && <PausedBanner />}
      {emulators.length > 0 && (
        <div className="banner" role="note">
          <FlaskConical size={14} aria-hidden />
          <span>
            No money moves:{' '}
            {LIST.format(
              emulators.map((name) => `${name.length <= 4 ? name.toUpperCase() : inWords(name)} emulator`),
            )}
            .
          </span>
        </div>
      )}
    </aside>
  )
}

/** A pause as `GET /api/ops/pauses` has it: of a queue, of a tenant (its id and, if it is told, its slug), or of both. */
type PauseRow = { queue: string | null; tenant_id?: string | null; tenant_slug?: string | null }

function PausedBanner() {
  const { data } = useAnswer<PauseRow[] | { data: PauseRow[] }>('/ops/pauses', undefined, { every_ms: 5_000 })
  const pauses = Array.isArray(data) ? data : (data?.data ?? [])
  if (pauses.length === 0) return null
  return (
    <div className="banner" data-tone="warn" role="alert">
      <CirclePause size={16} aria-hidden />
      <span>
        Paused: {LIST.format(pauses.map(pauseText))}. What is due there waits.{' '}
        <Link to="/ops/queues">Go to queues</Link>
      </span>
    </div>
  )
}

function pauseText({ queue, tenant_id, tenant_slug }: PauseRow): string {
  const tenant = tenant_slug ?? tenant_id
  const what = queue === null ? 'all queues' : `queue ${queue}`
  return tenant === null || tenant === undefined ? what : `${what} of tenant ${tenant}`
}

const LIST = new Intl.ListFormat('en')
