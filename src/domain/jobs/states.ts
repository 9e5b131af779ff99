// Reads the states of jobs for requests that wait for them, and counts open jobs.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { isLiveJob, isOfMode } from '../modes.ts'
import { claimableSince } from '../switches/holds.ts'

export type JobState = { id: string; state: string }

/** The states of jobs; missing ids are omitted. */
export async function findJobStates(sql: Sql, ids: string[]): Promise<JobState[]> {
  const found = await sql<JobState[]>`select id, state from jobs where id = any(${ids}::uuid[])`
  if (found.length === ids.length) return found
  const found_ids = new Set(found.map(({ id }) => id))
  const old = ids.filter((id) => !found_ids.has(id))
  return [
    ...found,
    ...(await sql<JobState[]>`select id, state from job_history where id = any(${old}::uuid[])`),
  ]
}

/** The number of jobs of live tenants whose provider call has an unknown effect. */
export async function countUnknown(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*) from jobs where finished_at is null and unknown_since is not null
      and ${isOfMode(sql, sql`jobs.tenant_id`, true)}`
  return row!.count
}

export type OpenJobs = {
  queue: string
  due: number
  /** Scheduled for later. */
  later: number
  running: number
  unknown: number
  /** Waiting for an operator. */
  parked: number
  oldest_due_s: number
}

/**
 * Counts the open jobs of live mode in each queue, each job once, and the time for which the oldest due one has been
 * claimable. Reads all open jobs.
 */
export async function countOpenJobs(sql: Sql): Promise<OpenJobs[]> {
  return await sql<OpenJobs[]>`
    select queue, count(*) filter (where stage = 'due') as due, count(*) filter (where stage = 'later') as later,
      count(*) filter (where stage = 'running') as running, count(*) filter (where stage = 'unknown') as unknown,
      count(*) filter (where stage = 'parked') as parked,
      greatest(extract(epoch from now() - min(since) filter (where stage = 'due')), 0)::integer as oldest_due_s
    from (
      select queue, ${claimableSince(sql)} as since, ${stageOfOpenJob(sql)} as stage
      from jobs j where finished_at is null and ${isLiveJob(sql, 'j', { reads_many: true })}
    ) j
    group by queue`
}

/** The stage of an open job: `parked`, `unknown`, `running`, `due` or `later`. */
export function stageOfOpenJob(sql: Sql | Tx): Fragment {
  return sql`
    case when run_at = 'infinity' then 'parked' when unknown_since is not null then 'unknown'
      when state = 'running' then 'running' when run_at <= now() then 'due' else 'later' end`
}
