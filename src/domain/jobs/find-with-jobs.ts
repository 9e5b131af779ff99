// Reads a resource together with the job that a request waits for, in one statement.
import type { Fragment, Sql } from '#core/db.ts'
import { resourceOf, type ResourceName } from '../resources.ts'
import type { Settlement } from './settle.ts'

/** The keys of a resource and of the job that a request waits for. `job_id` null: the request waits for no job. */
export type RequestedRow = { tenant_id: string; id: string; job_id: string | null }

/**
 * `job` is undefined if none was requested or if it no longer exists. `confirms`: the resource had the requested status
 * before the job, so only the job decides about the request.
 */
export type ResourceWithJob<T> = {
  resource: T
  job: { state: string; last_error: Settlement['error']; confirms: boolean } | undefined
}

/** The resources and jobs in the order of `requested`; undefined for a row that the tenant does not have. */
export async function findWithJobs<T extends object>(
  sql: Sql,
  resource: ResourceName,
  columns: Fragment,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<T> | undefined)[]> {
  type Row = T & {
    nth: number
    job_state: string | null
    job_error: Settlement['error']
    job_confirms: boolean
  }
  const rows = await sql<Row[]>`
    select a.nth, j.state as job_state, j.last_error as job_error, j.confirms as job_confirms, r.*
    from jsonb_to_recordset(${sql.json(requested.map((each, nth) => ({ ...each, nth })))}) as a(
      nth integer, tenant_id uuid, id uuid, job_id uuid)
    cross join lateral (
      select ${columns} from ${sql(resourceOf(resource).table)} where tenant_id = a.tenant_id and id = a.id offset 0
    ) r
    left join lateral (
      select state, last_error, payload ? 'confirms' as confirms from jobs
      where tenant_id = a.tenant_id and id = a.job_id offset 0
    ) j on true`
  const found: (ResourceWithJob<T> | undefined)[] = requested.map(() => undefined)
  // TypeScript cannot infer that the rest of the row is T.
  for (const { nth, job_state: state, job_error: last_error, job_confirms: confirms, ...resource } of rows)
    found[nth] = {
      resource: resource as unknown as T,
      job: state === null ? undefined : { state, last_error, confirms },
    }
  // An idempotent replay may ask for a job that has moved to the history.
  const missing = requested.flatMap(({ tenant_id, job_id }, nth) =>
    job_id !== null && found[nth] !== undefined && found[nth].job === undefined
      ? [{ nth, tenant_id, job_id }]
      : [],
  )
  if (missing.length === 0) return found
  const past = await sql<({ nth: number } & NonNullable<ResourceWithJob<T>['job']>)[]>`
    select a.nth, j.state, j.last_error, j.confirms
    from jsonb_to_recordset(${sql.json(missing)}) as a(nth integer, tenant_id uuid, job_id uuid)
    cross join lateral (
      select state, last_error, payload ? 'confirms' as confirms from job_history
      where tenant_id = a.tenant_id and id = a.job_id offset 0
    ) j`
  for (const { nth, ...job } of past) found[nth]!.job = job
  return found
}
