// Entries of any timeline of the API: icon and texts of each kind. Payments have their own texts.
import {
  BookOpen,
  Cpu,
  Inbox,
  ListChecks,
  Plug,
  Radio,
  UserRound,
  Webhook,
  type LucideIcon,
} from 'lucide-react'
import type { TimelineEntry, TimelineKind } from '#sdk/index.ts'
import { Money } from '../kit/Money.tsx'
import { humanize } from '../kit/statuses.ts'
import type { TimelineItem } from './Timeline.tsx'

/** The icon of each kind of entry, including kinds that only some pages have. */
export const KIND_ICONS = {
  job: ListChecks,
  attempt: Cpu,
  provider_call: Plug,
  notification: Inbox,
  posting: BookOpen,
  event: Radio,
  delivery: Webhook,
  person: UserRound,
} satisfies Record<TimelineKind | 'job' | 'delivery' | 'person', LucideIcon>

/** The name of an attempt. */
export const attemptName = (attempt: number): string => `Attempt ${attempt}`
export const CALL_NAME = 'Call to the provider'
/** The text for a call that was replaced by another. */
export const REPLACED_TEXT = 'It failed, and another call was made under a new key.'

/** The notification that Sluice creates from a lookup at the provider. */
const LOOKUP_KIND = 'reconciliation.lookup'

/**
 * Converts an entry. Minor entries are successful calls, whose result is already shown by their attempt, and entries
 * without a change.
 */
export function entryItem(entry: TimelineEntry): TimelineItem {
  const { at, kind, name, outcome, details } = entry
  return {
    id: idOf(entry),
    at,
    // Of a call, only the time of the request is stored, so the entry of a call has no end.
    ended_at: textOf(details['ended_at'] ?? details['applied_at']),
    icon: KIND_ICONS[kind],
    name: nameOf(entry),
    note: noteOf(entry),
    outcome,
    changed: changedBy(entry),
    details: { kind, name, ...details },
    is_major:
      name !== LOOKUP_KIND &&
      !(kind === 'provider_call' && outcome === 'done') &&
      outcome !== 'ignored' &&
      outcome !== 'returned',
  }
}

function idOf({ at, kind, name, details }: TimelineEntry): string {
  const { transfer_id, event_id, job_id, attempt, generation } = details
  return JSON.stringify([at, kind, name, transfer_id, event_id, job_id, attempt, generation])
}

function nameOf({ kind, name, details }: TimelineEntry): string {
  if (name === LOOKUP_KIND) return 'Looked up at the provider'
  switch (kind) {
    case 'attempt':
      return attemptName(Number(details['attempt']))
    case 'provider_call':
      return CALL_NAME
    case 'notification':
      return 'Notified by the provider'
    default:
      return humanize(name)
        .replace(/^Kyc/, 'Verification')
        .replace(/^Top up/, 'Top-up')
  }
}

function noteOf({ kind, name, details }: TimelineEntry): string {
  if (kind === 'posting')
    return `${String(details['debit_account'])} to ${String(details['credit_account'])}`.replaceAll('_', ' ')
  return kind === 'event' ? 'Event' : name
}

function changedBy({ kind, outcome, details }: TimelineEntry) {
  const { amount_minor, currency, error, failure } = details
  if (kind === 'posting' && typeof amount_minor === 'number' && typeof currency === 'string')
    return <Money minor={amount_minor} currency={currency} />
  if (kind === 'provider_call' && outcome === 'rotated') return REPLACED_TEXT
  if (typeof error === 'object' && error !== null && 'message' in error)
    return textOf(error.message) ?? undefined
  return kind === 'event' && typeof failure === 'string' ? humanize(failure) : undefined
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
