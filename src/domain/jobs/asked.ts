// Asks for the jobs of requests, as a part of the statement that accepts them.
import type { Fragment, Sql } from '#core/db.ts'
import { enqueue, type JobDefinition } from '#jobs/job.ts'
import type { Noun } from '../subjects.ts'

/**
 * Asks for a job about each of `rows`, which have the columns of a `JobRequest` and the id of their resource. `request`: what
 * the job's call will send.
 */
export function askFor(
  sql: Sql,
  job: JobDefinition,
  noun: Noun,
  rows: Fragment,
  request?: Fragment,
): Fragment {
  const id = sql(`${noun}_id`)
  const asked = sql`
    select job_id, tenant_id, ${id} as subject_id, jsonb_build_object(${`${noun}_id`}::text, ${id}) as payload, rung,
      null::text as dedupe_key, request_id ${request === undefined ? sql`` : sql`, ${request} as request`}
    from ${rows}`
  return enqueue(sql, job, asked)
}
