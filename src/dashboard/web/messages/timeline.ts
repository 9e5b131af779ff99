// The timeline of a message, as the waterfall shows it.
import { Bell, Cpu, Plug, Radio, Scale } from 'lucide-react'
import type { TimelineEntry } from '#sdk/index.ts'
import { inWords } from '../kit/statuses.ts'
import type { TimelineItem } from '../kit/Timeline.tsx'

const ICONS = { attempt: Cpu, provider_call: Plug, notification: Bell, posting: Scale, event: Radio }
const KINDS = {
  attempt: 'Job',
  provider_call: 'Provider call',
  notification: 'Notification',
  posting: 'Posting',
  event: 'Event',
}

/** Each entry of the API's timeline; one that ended has how long it took. */
export function messageTimeline(entries: TimelineEntry[]): TimelineItem[] {
  return entries.map(({ at, kind, name, outcome, details }, number) => {
    const { ended_at, attempt, error } = details
    const failed = Object(error) as { message?: unknown }
    return {
      id: `${at} ${number}`,
      at,
      ended_at: typeof ended_at === 'string' ? ended_at : null,
      icon: ICONS[kind],
      name: inWords(name),
      note: typeof attempt === 'number' ? `${KINDS[kind]}, attempt ${attempt}` : KINDS[kind],
      outcome,
      changed: typeof failed.message === 'string' ? failed.message : undefined,
      details,
    }
  })
}
