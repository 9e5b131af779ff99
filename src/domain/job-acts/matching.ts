// The conditions of job filters and the sources of their results. All job searches are built from these parts.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { isLiveJob } from '../modes.ts'

/**
 * The filters by state: each state, and `all`, `open` (not finished), `parked` (waits for an operator) and `retrying`
 * (its last attempt failed). A job that is being looked up is `running` and also `unknown`.
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

/** The conditions of a job filter. The start of a period is inclusive, its end exclusive. */
export type JobConditions = {
  state: JobFilter
  queue?: string | undefined
  name?: string | undefined
  tenant_id?: string | undefined
  resource_id?: string | undefined
  created_from?: string | undefined
  created_to?: string | undefined
  finished_from?: string | undefined
  finished_to?: string | undefined
}

const OPEN_FILTERS = new Set<JobFilter>(['open', 'parked', 'retrying', 'ready', 'running', 'unknown'])
/** Filters that are not exactly one state. */
const FILTERS_WITHOUT_STATE = new Set<JobFilter>(['all', 'open', 'parked', 'retrying', 'unknown'])
const FINISHED_STATES = new Set<JobFilter>(['succeeded', 'failed', 'discarded'])

/** The sections of a list: open jobs, newest first; then finished ones, last finished first. */
export type JobSection = 'open' | 'finished'

/** The sections that can contain matching jobs. */
export function sectionsOf({ state, finished_from, finished_to }: JobConditions): JobSection[] {
  const only_finished = FINISHED_STATES.has(state) || finished_from !== undefined || finished_to !== undefined
  return [
    ...(only_finished ? [] : ['open' as const]),
    ...(OPEN_FILTERS.has(state) ? [] : ['finished' as const]),
  ]
}

/** The matching jobs of the table `jobs`, in parentheses, without those in the history. */
export function matchingJobs(sql: Sql | Tx, conditions: JobConditions): Fragment {
  return sql`(select j.id from jobs j where true ${matchesConditions(sql, conditions)})`
}

/**
 * The conditions on the job `j`, each preceded by `and`. A filter that names no tenant and no row matches live mode
 * only, unless the search has a text (`has_text`), which may be an id.
 */
export function matchesConditions(
  sql: Sql | Tx,
  conditions: JobConditions,
  { has_text = false }: { has_text?: boolean } = {},
): Fragment {
  const { state, queue, name, tenant_id, resource_id, ...times } = conditions
  const is_any_mode = has_text || tenant_id !== undefined || resource_id !== undefined
  const parts: Fragment[] = [
    ...(OPEN_FILTERS.has(state) ? [sql`and j.finished_at is null`] : []),
    ...(state === 'parked' ? [sql`and j.run_at = 'infinity'`] : []),
    rareState(sql, state) ?? sql``,
    ...(FILTERS_WITHOUT_STATE.has(state) ? [] : [sql`and j.state = ${state}`]),
    ...(queue === undefined ? [] : [sql`and j.queue = ${queue}`]),
    ...(name === undefined ? [] : [sql`and j.name = ${name}`]),
    ...(tenant_id === undefined ? [] : [sql`and j.tenant_id = ${tenant_id}`]),
    ...(resource_id === undefined ? [] : [sql`and j.resource_id = ${resource_id}`]),
    within(sql, 'created_at', times.created_from, times.created_to),
    within(sql, 'finished_at', times.finished_from, times.finished_to),
    ...(is_any_mode ? [] : [sql`and ${isLiveJob(sql, 'j')}`]),
  ]
  return parts.reduce((all, each) => sql`${all} ${each}`)
}

/** The condition of a rare state, which has its own index. */
export function rareState(sql: Sql | Tx, state: JobFilter): Fragment | undefined {
  if (state === 'unknown') return sql`and j.unknown_since is not null`
  return state === 'retrying' ? sql`and j.failing_since is not null` : undefined
}

/** A table of a section (open or finished jobs), read in the order of an index. */
export type JobSource = {
  table: 'jobs' | 'job_history'
  key: 'created_at' | 'finished_at'
  /** The condition that the index serves; the other conditions filter the rows that it returns. */
  base: Fragment
}

/** The sources of a section. `is_sortable`: whether the jobs in the rare state are few enough to be sorted. */
export function sourcesOf(
  sql: Sql | Tx,
  section: JobSection,
  conditions: JobConditions,
  { is_sortable }: { is_sortable: boolean },
): JobSource[] {
  const { state, tenant_id, created_from, created_to, finished_from, finished_to } = conditions
  if (section === 'open') {
    const range = within(sql, 'created_at', created_from, created_to)
    const part =
      state === 'parked' ? sql`and j.run_at = 'infinity'` : (is_sortable && rareState(sql, state)) || sql``
    return [
      {
        table: 'jobs',
        key: 'created_at',
        base: sql`j.finished_at is null and j.created_at > '-infinity' ${part} ${range}`,
      },
    ]
  }
  // No job finishes before its creation, so `created_from` also bounds `finished_at`.
  const range = sql`
    ${within(sql, 'finished_at', finished_from, finished_to)} ${within(sql, 'finished_at', created_from, undefined)}`
  // The literal text of the index condition: with a parameter no plan would use the index.
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
