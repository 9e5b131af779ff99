// What operators may do about jobs: by which name, what it does, and which jobs it can be for.
import { FastForward, Gavel, RotateCcw, Trash2, type LucideIcon } from 'lucide-react'
import { STATES_OF_ACTS, type JobActKind, type JobDetails } from './shapes.ts'

/** `of_many`: what is said besides of all that filters find. */
export type JobActWords = {
  title: string
  of_all?: string
  icon: LucideIcon
  going: string
  done: string
  does: string
  of_many?: string
}

export const JOB_ACTS = {
  retry: {
    title: 'Retry',
    of_all: 'Retry all matching jobs',
    icon: RotateCcw,
    going: 'Retrying',
    done: 'Retried',
    does: 'runs again with all its attempts, and its handler decides what is left to do. A call to a provider is sent again with the same key, or only looked up if that key is too old.',
    of_many: 'Jobs that wait for their time and have not been tried yet are left alone.',
  },
  discard: {
    title: 'Discard',
    of_all: 'Discard all matching jobs',
    icon: Trash2,
    going: 'Discarding',
    done: 'Discarded',
    does: 'ends without being done. This is refused while the outcome of its call to a provider is not known.',
  },
  run_now: {
    title: 'Run now',
    of_all: 'Run all matching jobs now',
    icon: FastForward,
    going: 'Making due',
    done: 'Made due',
    does: 'becomes due now instead of waiting for its time. Past attempts still count.',
    of_many: 'This also sends messages scheduled for later.',
  },
  resolve: {
    title: 'Resolve',
    of_all: 'Resolve all matching jobs',
    icon: Gavel,
    going: 'Resolving',
    done: 'Resolved',
    does: 'ends with the outcome that you choose. First look for its call at the provider.',
    of_many:
      'Jobs whose call created something that exists are refused: resolve each with its reference, on its own page.',
  },
} satisfies Record<JobActKind, JobActWords>
/** Of one job, or of all that filters find. */
export const JOB_ACT_KINDS = ['retry', 'discard', 'run_now'] as const satisfies JobActKind[]

/** What can be done about all that filters find: only what is unknown can be resolved. */
export function actsOfMany(filters: Record<string, string>): JobActKind[] {
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
export function whyNever(filters: Record<string, string>): string | undefined {
  if (filters['search'] !== undefined)
    return 'An act cannot use the filter Search: remove it, or open the job.'
  if (filters['state'] !== undefined && !STATES_OF_ACTS.includes(filters['state']))
    return `An act cannot use the filter State ${filters['state']}: choose ${ONE_OF.format(STATES_OF_ACTS)}.`
  return undefined
}

const ONE_OF = new Intl.ListFormat('en', { type: 'disjunction' })

/** Why no act can be for what these filters find, when the server says that none can. */
export function whyNoAct(filters: Record<string, string>): string {
  const never = whyNever(filters)
  if (never !== undefined) return never
  if (filters['tenant'] !== undefined) return `There is no tenant ${filters['tenant']}.`
  return 'An act cannot use these filters.'
}

/** Filters in words: `State parked, Queue payments`. */
export function filterWords(filters: Record<string, string>): string {
  return Object.entries({ state: 'open', ...filters })
    .map(([name, value]) => `${FILTER_WORDS[name] ?? name} ${value}`)
    .join(', ')
}

const FILTER_WORDS: Record<string, string> = {
  state: 'State',
  queue: 'Queue',
  name: 'Name',
  tenant: 'Tenant',
  tenant_id: 'Tenant',
  subject_id: 'Subject',
  search: 'Search',
}
