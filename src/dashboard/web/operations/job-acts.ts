// What operators may do about jobs: by which name, what it does, and which jobs it can be for.
import { FastForward, Gavel, RotateCcw, Trash2, type LucideIcon } from 'lucide-react'
import { ACTIONABLE_STATES, type JobActKind, type JobDetails } from './shapes.ts'

/** `note_for_all`: what is said besides of all that filters find. */
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
      'runs again with all its attempts, and its handler decides what is left to do. A call to a provider is sent again with the same key, or only looked up if that key is too old.',
    note_for_all: 'Jobs that wait for their time and have not been tried yet are left alone.',
  },
  discard: {
    title: 'Discard',
    title_for_all: 'Discard all matching jobs',
    icon: Trash2,
    in_progress: 'Discarding',
    done: 'Discarded',
    effect:
      'ends without being done. This is refused while the outcome of its call to a provider is not known.',
  },
  run_now: {
    title: 'Run now',
    title_for_all: 'Run all matching jobs now',
    icon: FastForward,
    in_progress: 'Making due',
    done: 'Made due',
    effect: 'becomes due now instead of waiting for its time. Past attempts still count.',
    note_for_all: 'This also sends messages scheduled for later.',
  },
  resolve: {
    title: 'Resolve',
    title_for_all: 'Resolve all matching jobs',
    icon: Gavel,
    in_progress: 'Resolving',
    done: 'Resolved',
    effect: 'ends with the outcome that you choose. First look for its call at the provider.',
    note_for_all:
      'Jobs whose call created something that exists are refused: resolve each with its reference, on its own page.',
  },
} satisfies Record<JobActKind, JobActTexts>
/** Of one job, or of all that filters find. */
export const JOB_ACT_KINDS = ['retry', 'discard', 'run_now'] as const satisfies JobActKind[]

/** What can be done about all that filters find: only what is unknown can be resolved. */
export function bulkActs(filters: Record<string, string>): JobActKind[] {
  return filters['state'] === 'unknown' ? [...JOB_ACT_KINDS, 'resolve'] : JOB_ACT_KINDS.slice()
}

/** Whether the job's state allows the act; the server looks again. */
export function allowsAct(job: JobDetails, act: JobActKind, now: number): boolean {
  const waits = job.state === 'ready' || job.state === 'unknown'
  const is_unknown = waits && job.unknown_since !== null
  const is_later = job.state === 'ready' && !job.parked && job.run_at !== null && Date.parse(job.run_at) > now
  if (act === 'run_now') return is_later
  if (act === 'resolve') return is_unknown && job.call !== null
  if (act === 'discard') return waits && !(is_unknown && job.call?.under_way === true)
  // An attempt of a delivery is over with the delivery.
  const can_open = job.state === 'discarded' && job.calls.length === 0 && job.delivery === null
  return (waits && !(is_later && job.attempt === 0)) || can_open
}

/** Why no act can ever be for what these filters find; undefined: one may be. */
export function unsupportedFilter(filters: Record<string, string>): string | undefined {
  if (filters['search'] !== undefined)
    return 'An act cannot use the filter Search: remove it, or open the job.'
  if (filters['state'] !== undefined && !ACTIONABLE_STATES.includes(filters['state']))
    return `An act cannot use the filter State ${filters['state']}: choose ${ONE_OF.format(ACTIONABLE_STATES)}.`
  return undefined
}

const ONE_OF = new Intl.ListFormat('en', { type: 'disjunction' })

/** Why no act can be for what these filters find, when the server says that none can. */
export function filterRefusal(filters: Record<string, string>): string {
  const never = unsupportedFilter(filters)
  if (never !== undefined) return never
  if (filters['tenant'] !== undefined) return `There is no tenant ${filters['tenant']}.`
  return 'An act cannot use these filters.'
}

/** Filters in words: `State parked, Queue payments`. */
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
  subject_id: 'Subject',
  search: 'Search',
}
