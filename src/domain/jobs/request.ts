// Enqueues the jobs of requests, as a part of the statement that accepts the requests.
import type { Fragment, Sql } from '#core/db.ts'
import { enqueuing, type JobDefinition } from '#jobs/job.ts'
import type { ResourceName } from '../resources.ts'

/**
 * Enqueues a job for each of `rows`, which have the columns of a `JobRequest` and the id of their resource.
 * `request`: the stored request of the job's call.
 */
export function enqueuingJobs(
  sql: Sql,
  job: JobDefinition,
  resource: ResourceName,
  rows: Fragment,
  request?: Fragment,
): Fragment {
  const id = sql(`${resource}_id`)
  const requested = sql`
    select job_id, tenant_id, ${id} as resource_id, jsonb_build_object(${`${resource}_id`}::text, ${id}) as payload,
      will_wake,
      null::text as dedupe_key, request_id ${request === undefined ? sql`` : sql`, ${request} as request`}
    from ${rows}`
  return enqueuing(sql, job, requested)
}
