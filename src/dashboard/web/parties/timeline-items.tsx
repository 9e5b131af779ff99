// A timeline of the API as the waterfall shows it.
import { BookOpen, Cpu, Plug, Radio, Webhook } from 'lucide-react'
import type { TimelineEntry, TimelineKind } from '#sdk/index.ts'
import type { PathTo } from '../api.ts'
import { Bone } from '../kit/Bone.tsx'
import { Money } from '../kit/Money.tsx'
import { Failed } from '../kit/states.tsx'
import { inWords } from '../kit/statuses.ts'
import { Timeline, type TimelineItem } from '../kit/Timeline.tsx'
import { useAnswer } from '../queries.ts'

/** The section with what happened to something, read from `path`, again and again. */
export function TimelineSection({
  path,
  every_ms = 5_000,
}: {
  path: PathTo<TimelineEntry[]>
  every_ms?: number
}) {
  const { data, error, refetch } = useAnswer<TimelineEntry[]>(path, { limit: 100 }, { every_ms })
  return (
    <section className="section">
      <h2>Timeline</h2>
      {data !== undefined && <Timeline items={timelineItems(data)} />}
      {data === undefined && error !== null && <Failed error={error} retry={refetch} />}
      {data === undefined && error === null && (
        <div className="stack" aria-busy="true" aria-label="Loading">
          {['82%', '64%', '73%', '58%'].map((width) => (
            <Bone key={width} width={width} height={16} />
          ))}
        </div>
      )}
    </section>
  )
}

/** Folded are calls that went well, which say no more than their attempt, and what changed nothing. */
function timelineItems(entries: TimelineEntry[]): TimelineItem[] {
  return entries.map(({ at, kind, name, outcome, details }, index) => ({
    id: `${at} ${index}`,
    at,
    ended_at: textOf(details['ended_at'] ?? details['last_sent_at'] ?? details['applied_at']),
    icon: ICONS[kind],
    name: nameOf(kind, name),
    note: noteOf(kind, name, details),
    outcome,
    changed: changedBy(kind, details),
    details: { kind, name, ...details },
    matters:
      name !== LOOK &&
      !(kind === 'provider_call' && outcome === 'done') &&
      outcome !== 'ignored' &&
      outcome !== 'returned',
  }))
}

/** The notification that we make ourselves of what the provider says when it is asked. */
const LOOK = 'reconciliation.look'

const ICONS = {
  attempt: Cpu,
  provider_call: Plug,
  notification: Webhook,
  posting: BookOpen,
  event: Radio,
} satisfies Record<TimelineKind, unknown>

function nameOf(kind: TimelineKind, name: string): string {
  if (name === LOOK) return 'Looked up at the provider'
  if (kind === 'event')
    return inWords(name)
      .replace(/^Kyc/, 'Verification')
      .replace(/^Top up/, 'Top-up')
  if (kind === 'attempt') return 'Attempt'
  if (kind === 'provider_call') return 'Call to the provider'
  return kind === 'notification' ? 'Notified by the provider' : inWords(name)
}

function noteOf(kind: TimelineKind, name: string, details: Record<string, unknown>): string {
  if (kind === 'attempt') return `${name}, attempt ${String(details['attempt'])}`
  if (kind === 'posting')
    return `${String(details['debit_account'])} to ${String(details['credit_account'])}`.replaceAll('_', ' ')
  return kind === 'event' ? 'Event' : name
}

function changedBy(kind: TimelineKind, details: Record<string, unknown>) {
  const { amount_minor, currency, error, failure } = details
  if (kind === 'posting' && typeof amount_minor === 'number' && typeof currency === 'string')
    return <Money minor={amount_minor} currency={currency} />
  if (typeof error === 'object' && error !== null && 'message' in error) return textOf(error.message)
  return kind === 'event' && typeof failure === 'string' ? inWords(failure) : undefined
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
