// The acts of operators on jobs: labels, effects, and the jobs that they apply to.
import { FastForward, Gavel, RotateCcw, Trash2, type LucideIcon } from 'lucide-react'
import { ACTIONABLE_STATES, type JobActKind, type JobDetails } from './shapes.ts'

/** `note_for_all`: a note for an act on all matching jobs. */
export type JobActTexts = {
  title: string
  title_for_all?: string
  icon: LucideIcon
  in_progress: string
  done: string
  effect: string
  note_for_all?: string
}

export const JOB_ACTS = {
  retry: {
    title: 'Retry',
    title_for_all: 'Retry all matching jobs',
    icon: RotateCcw,
    in_progress: 'Retrying',
    done: 'Retried',
    effect:
      'runs again with a full set of attempts, and its handler continues where it stopped. A call to a provider is sent again with the same key, or only looked up if that key is too old.',
    note_for_all: 'Scheduled jobs without an attempt are not changed.',
  },
  discard: {
    title: 'Discard',
    title_for_all: 'Discard all matching jobs',
    icon: Trash2,
    in_progress: 'Discarding',
    done: 'Discarded',
    effect:
      'ends without being done. This is refused while the outcome of its call to a provider is unknown.',
  },
  run_now: {
    title: 'Run now',
    title_for_all: 'Run all matching jobs now',
    icon: FastForward,
    in_progress: 'Making due',
    done: 'Made due',
    effect: 'becomes due now instead of at its scheduled time. Past attempts still count.',
    note_for_all: 'This also sends messages scheduled for later.',
  },
  resolve: {
    title: 'Resolve',
    title_for_all: 'Resolve all matching jobs',
    icon: Gavel,
    in_progress: 'Resolving',
    done: 'Resolved',
    effect: 'ends with the outcome that you choose. Check its call at the provider first.',
    note_for_all:
      'Jobs whose call created an object at the provider are refused: resolve each of them with its reference, on its own page.',
  },
} satisfies Record<JobActKind, JobActTexts>
/** Acts on one job or on all matching jobs. */
export const JOB_ACT_KINDS = ['retry', 'discard', 'run_now'] as const satisfies JobActKind[]

/** The acts on all matching jobs: `resolve` is only for jobs with an unknown outcome. */
export function bulkActs(filters: Record<string, string>): JobActKind[] {
  return filters['state'] === 'unknown' ? [...JOB_ACT_KINDS, 'resolve'] : JOB_ACT_KINDS.slice()
}

/** Whether the job's state allows the act. The server checks again. */
export function allowsAct(job: JobDetails, act: JobActKind, now: number): boolean {
  const waits = job.state === 'ready' || job.state === 'unknown'
  const is_unknown = waits && job.unknown_since !== null
  const is_later = job.state === 'ready' && !job.parked && job.run_at !== null && Date.parse(job.run_at) > now
  if (act === 'run_now') return is_later
  if (act === 'resolve') return is_unknown && job.call !== null
  if (act === 'discard') return waits && !(is_unknown && job.call?.under_way === true)
  // A discarded attempt of a delivery is retried on the page of the delivery, not by an act on its job.
  const can_open = job.state === 'discarded' && job.calls.length === 0 && job.delivery === null
  return (waits && !(is_later && job.attempt === 0)) || can_open
}

/** Why no act can use these filters. Undefined: acts can use them. */
export function unsupportedFilter(filters: Record<string, string>): string | undefined {
  if (filters['search'] !== undefined)
    return 'An act cannot use the filter Search: remove it, or open the job.'
  if (filters['state'] !== undefined && !ACTIONABLE_STATES.includes(filters['state']))
    return `An act cannot use the filter State ${filters['state']}: choose ${ONE_OF.format(ACTIONABLE_STATES)}.`
  return undefined
}

const ONE_OF = new Intl.ListFormat('en', { type: 'disjunction' })

/** Why no act can use these filters, after the server refused them. */
export function filterRefusal(filters: Record<string, string>): string {
  const never = unsupportedFilter(filters)
  if (never !== undefined) return never
  if (filters['tenant'] !== undefined) return `There is no tenant ${filters['tenant']}.`
  return 'An act cannot use these filters.'
}

/** Filters as text: `State parked, Queue payments`. */
export function filtersText(filters: Record<string, string>): string {
  return Object.entries({ state: 'open', ...filters })
    .map(([name, value]) => `${FILTER_LABELS[name] ?? name} ${value}`)
    .join(', ')
}

const FILTER_LABELS: Record<string, string> = {
  state: 'State',
  queue: 'Queue',
  name: 'Name',
  tenant: 'Tenant',
  tenant_id: 'Tenant',
  resource_id: 'Resource',
  search: 'Search',
}
