// Which jobs match what operators filter by, and where these are read in order: all searches are made of these parts.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * The states, and `all`, `open` (not finished), `parked` (waits for an operator) and `retrying` (its last attempt failed). A job that is being looked up is
 * `running`, and `unknown` too.
 */
export const JOB_FILTERS = [
  'all',
  'open',
  'parked',
  'retrying',
  'ready',
  'running',
  'unknown',
  'succeeded',
  'failed',
  'discarded',
] as const
type JobFilter = (typeof JOB_FILTERS)[number]

/** What a job must be. The times are inclusive from, exclusive to. */
export type JobConditions = {
  state: JobFilter
  queue?: string | undefined
  name?: string | undefined
  tenant_id?: string | undefined
  subject_id?: string | undefined
  created_from?: string | undefined
  created_to?: string | undefined
  finished_from?: string | undefined
  finished_to?: string | undefined
}

const OPEN_FILTERS = new Set<JobFilter>(['open', 'parked', 'retrying', 'ready', 'running', 'unknown'])
/** Those that are no state. */
const FILTERS_WITHOUT_STATE = new Set<JobFilter>(['all', 'open', 'parked', 'retrying', 'unknown'])
const FINISHED_STATES = new Set<JobFilter>(['succeeded', 'failed', 'discarded'])

/** The parts of the list: open jobs, newest first; then what is over, last first. */
export type JobSection = 'open' | 'over'

/** The sections in which such jobs can be. */
export function sectionsOf({ state, finished_from, finished_to }: JobConditions): JobSection[] {
  const only_finished = FINISHED_STATES.has(state) || finished_from !== undefined || finished_to !== undefined
  return [...(only_finished ? [] : ['open' as const]), ...(OPEN_FILTERS.has(state) ? [] : ['over' as const])]
}

/** The jobs of the table `jobs` that match, in brackets. What is in the history is not among them. */
export function matchingJobs(sql: Sql | Tx, conditions: JobConditions): Fragment {
  return sql`(select j.id from jobs j where true ${matchesConditions(sql, conditions)})`
}

/** The conditions for the job `j`, each after an `and`. */
export function matchesConditions(sql: Sql | Tx, conditions: JobConditions): Fragment {
  const { state, queue, name, tenant_id, subject_id, ...times } = conditions
  const parts: Fragment[] = [
    ...(OPEN_FILTERS.has(state) ? [sql`and j.finished_at is null`] : []),
    ...(state === 'parked' ? [sql`and j.run_at = 'infinity'`] : []),
    rareState(sql, state) ?? sql``,
    ...(FILTERS_WITHOUT_STATE.has(state) ? [] : [sql`and j.state = ${state}`]),
    ...(queue === undefined ? [] : [sql`and j.queue = ${queue}`]),
    ...(name === undefined ? [] : [sql`and j.name = ${name}`]),
    ...(tenant_id === undefined ? [] : [sql`and j.tenant_id = ${tenant_id}`]),
    ...(subject_id === undefined ? [] : [sql`and j.subject_id = ${subject_id}`]),
    within(sql, 'created_at', times.created_from, times.created_to),
    within(sql, 'finished_at', times.finished_from, times.finished_to),
  ]
  return parts.reduce((all, each) => sql`${all} ${each}`)
}

/** The condition of a state that few jobs have as a rule, which an index of its own serves. */
export function rareState(sql: Sql | Tx, state: JobFilter): Fragment | undefined {
  if (state === 'unknown') return sql`and j.unknown_since is not null`
  return state === 'retrying' ? sql`and j.failing_since is not null` : undefined
}

/** A table in which a section is read, in the order of an index. */
export type JobSource = {
  table: 'jobs' | 'job_history'
  key: 'created_at' | 'finished_at'
  /** What the index serves; all else is a filter on what is read in its order. */
  base: Fragment
}

/** Where the jobs of a section are. `few`: so few jobs have its rare state that they can be sorted. */
export function sourcesOf(
  sql: Sql | Tx,
  section: JobSection,
  conditions: JobConditions,
  { few }: { few: boolean },
): JobSource[] {
  const { state, tenant_id, created_from, created_to, finished_from, finished_to } = conditions
  if (section === 'open') {
    const range = within(sql, 'created_at', created_from, created_to)
    const part = state === 'parked' ? sql`and j.run_at = 'infinity'` : (few && rareState(sql, state)) || sql``
    return [{ table: 'jobs', key: 'created_at', base: sql`j.finished_at is null ${part} ${range}` }]
  }
  // Nothing is over before it was created.
  const range = sql`
    ${within(sql, 'finished_at', finished_from, finished_to)} ${within(sql, 'finished_at', created_from, undefined)}`
  // Words of the index, not a parameter: else no plan would use it.
  const failed =
    state === 'failed' || state === 'discarded' ? sql`and j.state in ('failed', 'discarded')` : undefined
  const served = failed ?? (tenant_id === undefined ? sql`` : sql`and j.tenant_id = ${tenant_id}`)
  return [
    { table: 'jobs', key: 'finished_at', base: sql`j.finished_at is not null ${range}` },
    { table: 'job_history', key: 'finished_at', base: sql`true ${served} ${range}` },
  ]
}

function within(
  sql: Sql | Tx,
  column: 'created_at' | 'finished_at',
  from: string | undefined,
  to: string | undefined,
): Fragment {
  return sql`
    ${from === undefined ? sql`` : sql`and ${sql(`j.${column}`)} >= ${from}`}
    ${to === undefined ? sql`` : sql`and ${sql(`j.${column}`)} < ${to}`}`
}
