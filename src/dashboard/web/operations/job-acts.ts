// What operators may do about jobs: by which name, what it does, and which jobs it can be for.
import { FastForward, RotateCcw, Trash2, type LucideIcon } from 'lucide-react'
import { STATES_OF_ACTS, type JobActKind, type JobDetails } from './shapes.ts'

export const JOB_ACTS: Record<
  JobActKind,
  { title: string; icon: LucideIcon; going: string; does: string; of_all?: string }
> = {
  retry: {
    title: 'Retry',
    icon: RotateCcw,
    going: 'Retrying',
    of_all: 'Those that wait for their time and have not been tried yet are left alone.',
    does: 'Performed again with all attempts; its handler decides what is left to do. A call to a provider is sent again with the same key, or only looked up where that key is too old.',
  },
  discard: {
    title: 'Discard',
    icon: Trash2,
    going: 'Discarding',
    does: 'Ended without being done. Refused where a call is under way whose outcome nobody knows yet.',
  },
  run_now: {
    title: 'Run now',
    icon: FastForward,
    going: 'Making due',
    does: 'Made due at once instead of waiting for its time. Attempts stay counted.',
    of_all: 'This also sends messages scheduled for later.',
  },
}
export const JOB_ACT_KINDS = ['retry', 'discard', 'run_now'] as const satisfies JobActKind[]

/** Whether the job's state allows the act; the server looks again. */
export function allowsAct(job: JobDetails, act: JobActKind, now: number): boolean {
  const waits = job.state === 'ready' || job.state === 'unknown'
  const is_later = job.state === 'ready' && !job.parked && job.run_at !== null && Date.parse(job.run_at) > now
  if (act === 'run_now') return is_later
  if (act === 'discard') return waits
  // An attempt of a delivery is over with the delivery.
  const can_open = job.state === 'discarded' && job.calls.length === 0 && job.delivery === null
  return (waits && !(is_later && job.attempt === 0)) || can_open
}

/** Why no act can ever be for what these filters find; undefined: one may be. */
export function whyNever(filters: Record<string, string>): string | undefined {
  if (filters['search'] !== undefined)
    return 'An act cannot take the filter Search: take it away, or open the job.'
  if (filters['state'] !== undefined && !STATES_OF_ACTS.includes(filters['state']))
    return `An act cannot take the filter State ${filters['state']}: choose ${ONE_OF.format(STATES_OF_ACTS)}.`
  return undefined
}

const ONE_OF = new Intl.ListFormat('en', { type: 'disjunction' })

/** Why no act can be for what these filters find, when the server says that none can. */
export function whyNoAct(filters: Record<string, string>): string {
  const never = whyNever(filters)
  if (never !== undefined) return never
  if (filters['tenant'] !== undefined) return `There is no tenant ${filters['tenant']}.`
  return 'An act cannot take these filters.'
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
