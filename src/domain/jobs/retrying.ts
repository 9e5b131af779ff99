// Jobs that are being retried: open jobs whose last attempt failed. A partial index covers exactly these.
import { QUEUES, type QueueName } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { JOB_NAMES, JOB_NAMES_OF } from '#jobs/index.ts'
import { isLiveJob } from '../modes.ts'

/** The maximum number of jobs that are counted for each job name. */
const MAX_RETRYING = 10_000

/** `oldest_s`: the seconds for which the attempts of the oldest retrying job have failed; 0 without jobs. */
export type RetryingCount = { retrying: number; oldest_s: number }

/** The number of retrying jobs of live mode by job name; names without any are omitted. */
export async function findRetrying(sql: Sql): Promise<Map<string, RetryingCount>> {
  const rows = await sql<(RetryingCount & { name: string })[]>`
    select requested.name, counted.retrying, floor(extract(epoch from now() - counted.since))::integer as oldest_s
    from unnest(${[...JOB_NAMES]}::text[]) as requested(name)
    cross join lateral (
      select count(*) as retrying, min(failing_since) as since from (
        select j.failing_since from jobs j
        where j.name = requested.name and j.finished_at is null and j.failing_since is not null
          and ${isLiveJob(sql, 'j')}
        order by j.failing_since limit ${MAX_RETRYING}
      ) j
    ) counted
    where counted.retrying > 0`
  return new Map(rows.map(({ name, ...row }) => [name, row]))
}

/** The number of retrying jobs of live mode by queue. */
export async function findRetryingOfQueues(sql: Sql): Promise<Map<QueueName, RetryingCount>> {
  const found = await findRetrying(sql)
  return new Map(QUEUES.map((queue) => [queue, retryingOf(found, JOB_NAMES_OF.get(queue) ?? [])]))
}

/** The total over these job names. */
export function retryingOf(found: Map<string, RetryingCount>, names: readonly string[]): RetryingCount {
  const rows = names.flatMap((name) => found.get(name) ?? [])
  return {
    retrying: rows.reduce((sum, { retrying }) => sum + retrying, 0),
    oldest_s: Math.max(0, ...rows.map(({ oldest_s }) => oldest_s)),
  }
}

/** `since`: the time at which the attempts of the oldest job began to fail. */
export type RetryingJobs = {
  name: string
  count: number
  since: string
  oldest_s: number
  examples: string[]
}

/** The retrying jobs of one tenant by job name; at most `limit` jobs are counted in total. */
export async function findRetryingOfTenant(
  sql: Sql,
  tenant_id: string,
  limit: number,
): Promise<RetryingJobs[]> {
  return await sql<RetryingJobs[]>`
    select name, count(*) as count, min(failing_since) as since,
      floor(extract(epoch from now() - min(failing_since)))::integer as oldest_s,
      to_jsonb((array_agg(id order by failing_since, id))[1:3]) as examples
    from (
      select j.id, j.name, j.failing_since from jobs j
      where j.tenant_id = ${tenant_id} and j.finished_at is null and j.failing_since is not null limit ${limit}
    ) j
    group by name`
}
