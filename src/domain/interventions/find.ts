// Reads jobs for operators.
import type { Fragment, Sql } from '#core/db.ts'
import { CALLS } from '#jobs/index.ts'
import { isFromNewerVersion, type CallDefinition } from '#jobs/job.ts'
import { nounOf, rootOf, type Noun } from '../subjects.ts'

/**
 * The filters of `npm run jobs -- list`: the states, and `all`, `open` (not finished) and `parked` (waits for an
 * operator).
 */
export const JOB_FILTERS = [
  'all',
  'open',
  'parked',
  'ready',
  'running',
  'unknown',
  'succeeded',
  'failed',
  'discarded',
] as const
export type JobFilters = {
  state: (typeof JOB_FILTERS)[number]
  queue?: string
  subject_id?: string
  tenant_id?: string
  limit: number
}

export type ListedJob = {
  id: string
  tenant: string | null
  tenant_id: string
  queue: string
  name: string
  state: string
  /** Whether it waits for an operator. */
  parked: boolean
  /** The noun and id of the row that it is filed under, if any; `subject` is null too where the noun is not known. */
  subject: Noun | null
  subject_id: string | null
  attempt: number
  /** Null when it is parked. */
  run_at: string | null
  unknown_since: string | null
  first_sent_at: string | null
  error: string | null
  created_at: string
  finished_at: string | null
}

/** Jobs, newest first. Of the finished ones, those that finished last are taken. */
export async function findJobs(sql: Sql, filters: JobFilters): Promise<ListedJob[]> {
  const { state, queue, subject_id, tenant_id, limit } = filters
  const conditions: Fragment[] = [
    ...(state === 'parked' ? [sql`and j.run_at = 'infinity'`] : []),
    // A job that is being looked up is `running`, and unknown too.
    ...(state === 'unknown' ? [sql`and j.unknown_since is not null`] : []),
    ...(['all', 'open', 'parked', 'unknown'].includes(state) ? [] : [sql`and j.state = ${state}`]),
    ...(queue === undefined ? [] : [sql`and j.queue = ${queue}`]),
    ...(tenant_id === undefined ? [] : [sql`and j.tenant_id = ${tenant_id}`]),
  ]
  const filtered = conditions.reduce((all, each) => sql`${all} ${each}`, sql``)
  const is_open = ['open', 'parked', 'ready', 'running', 'unknown'].includes(state)
  const open = sql`(
    select ${jobColumns(sql)} from jobs j where j.finished_at is null ${filtered}
    order by j.created_at desc, j.id desc limit ${limit})`
  // Finished jobs are read from the end of an index on `finished_at`, so that nothing sorts all of them.
  const finished = sql`(
    select ${jobColumns(sql)} from jobs j where j.finished_at is not null ${filtered}
    order by j.finished_at desc limit ${limit})`
  const moved = sql`(
    select ${jobColumns(sql)} from job_history j where true ${filtered}
    order by j.finished_at desc limit ${limit})`
  const over = sql`${finished} union all ${moved}`
  const found = is_open ? open : state === 'all' ? sql`${open} union all ${over}` : over
  // The index of a row's jobs begins with the tenant, which the operator need not know: every tenant is tried.
  const source =
    subject_id === undefined
      ? sql`(${found}) j left join tenants t on t.id = j.tenant_id`
      : sql`tenants t join ${everyJob(sql)} j on j.tenant_id = t.id and j.subject_id = ${subject_id}
          where ${is_open ? sql`j.finished_at is null` : sql`true`} ${filtered}`
  const jobs = await sql<Omit<ListedJob, 'subject'>[]>`
    select ${listed(sql)} from ${source} order by j.created_at desc, j.id desc limit ${limit}`
  return jobs.map((job) => ({ ...job, subject: subjectOfJob(job.name) }))
}

type Intervention = {
  at: string
  who: string
  act: string
  reason: string
  before: string
  after: string
}
export type ShownJob = ListedJob & {
  payload: unknown
  max_attempts: number
  attempts: {
    attempt: number
    worker: string
    started_at: string
    ended_at: string | null
    outcome: string | null
    error: string | null
  }[]
  calls: {
    generation: number
    key: string
    operation: string
    first_sent_at: string | null
    last_sent_at: string | null
    refused_since: string | null
    outcome: string | null
    provider_reference: string | null
  }[]
  interventions: Intervention[]
}

/** A job with its attempts, calls and interventions, or undefined. */
export async function findJob(sql: Sql, id: string): Promise<ShownJob | undefined> {
  const [job] = await sql<Omit<ShownJob, 'subject' | 'attempts' | 'calls' | 'interventions'>[]>`
    select ${listed(sql)}, j.payload, j.max_attempts
    from ${everyJob(sql)} j left join tenants t on t.id = j.tenant_id where j.id = ${id}`
  if (job === undefined) return undefined
  const { tenant_id } = job
  return {
    ...job,
    subject: subjectOfJob(job.name),
    attempts: await sql<ShownJob['attempts']>`
      select attempt, worker, started_at, ended_at, outcome, error ->> 'message' as error from all_job_attempts
      where tenant_id = ${tenant_id} and job_id = ${id} order by attempt`,
    calls: await sql<ShownJob['calls']>`
      select generation, key, operation, first_sent_at, last_sent_at, refused_since, outcome, provider_reference
      from all_provider_calls
      where tenant_id = ${tenant_id} and job_id = ${id} order by generation`,
    interventions: await sql<Intervention[]>`
      select at, who, act, reason, before, after from job_interventions
      where tenant_id = ${tenant_id} and job_id = ${id} order by at`,
  }
}

/** What there is to know of a job's provider call before it is resolved. */
export type ResolvableCall = Pick<CallDefinition, 'makes'> & {
  /** Whether its stored request can be read, here or by a newer version; if not, no worker can look it up. */
  readable: boolean
}

/** The provider call of a job that is not in the history; undefined when this version knows none. */
export async function findCall(sql: Sql, id: string): Promise<ResolvableCall | undefined> {
  const [job] = await sql<
    { name: string; request: unknown }[]
  >`select name, request from jobs where id = ${id}`
  const call = CALLS.find((each) => each.job === job?.name)
  if (job === undefined || call === undefined) return undefined
  const { success, error } = call.request.safeParse(job.request)
  return { makes: call.makes, readable: success || isFromNewerVersion(error) }
}

function subjectOfJob(name: string): Noun | null {
  const noun = nounOf(name)
  return noun === undefined ? null : rootOf(noun)
}

// Jobs that finished some time ago are in the history.
function everyJob(sql: Sql): Fragment {
  return sql`(select ${jobColumns(sql)} from jobs j union all select ${jobColumns(sql)} from job_history j)`
}

function jobColumns(sql: Sql): Fragment {
  return sql`
    j.id, j.tenant_id, j.queue, j.name, j.state, j.run_at, j.subject_id, j.payload, j.attempt, j.max_attempts,
    j.unknown_since, j.last_error, j.first_sent_at, j.created_at, j.finished_at`
}

function listed(sql: Sql): Fragment {
  return sql`
    j.id, t.slug as tenant, j.tenant_id, j.queue, j.name, j.state, j.run_at = 'infinity' as parked, j.subject_id,
    j.attempt, nullif(j.run_at, 'infinity') as run_at, j.unknown_since, j.last_error ->> 'message' as error,
    j.first_sent_at, j.created_at, j.finished_at`
}
