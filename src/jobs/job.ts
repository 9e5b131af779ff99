// What a job is, and how a step asks for one: the row is written by the step itself.
import type { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'

export const QUEUES = ['payments', 'notifications'] as const
export type QueueName = (typeof QUEUES)[number]

export type JobDefinition<Name extends string = string, Payload extends z.ZodType = z.ZodType> = {
  /** `<noun>.<verb>`, also the key of its handler. */
  name: Name
  queue: QueueName
  /** Ids only: what a job needs to know it reads from the rows they name. */
  payload: Payload
  /** The provider call that it makes, where it makes one. Its request is written with the job. */
  call?: { operation: string }
  /** How often it may end in no known way: with its process, or throwing. Other attempts do not count. */
  max_attempts: number
}

export const MAX_ATTEMPTS = 25

/** Declares a job. `max_attempts` defaults to 25. */
export function defineJob<Name extends string, Payload extends z.ZodType>(
  job: Omit<JobDefinition<Name, Payload>, 'max_attempts'> & { max_attempts?: number },
): JobDefinition<Name, Payload> {
  return { max_attempts: MAX_ATTEMPTS, ...job }
}

/**
 * Writes the job rows as a part of the step that asks for them. `asked` selects one row a job: `job_id, tenant_id,
 * subject_id, payload, rung` (rung: the process will ring right after the commit; else a walk over what waits claims it),
 * `dedupe_key`, null where the asking step itself happens once, and `request_id`, under which the log tells of it. For a job
 * with a provider call also `request`, its exact parameters: neither a retry nor a deploy changes what is sent under a key.
 */
export function enqueue(sql: Sql | Tx, job: JobDefinition, asked: Fragment): Fragment {
  const { call } = job
  return sql`
    insert into jobs (id, tenant_id, queue, name, subject_id, payload, max_attempts, rung_at, dedupe_key, request_id
      ${call === undefined ? sql`` : sql`, operation, generation, key, request`})
    select job_id, tenant_id, ${job.queue}, ${job.name}, subject_id, payload, ${job.max_attempts}::integer,
      case when rung then now() end, dedupe_key, request_id
      ${call === undefined ? sql`` : sql`, ${call.operation}, 1, job_id || ':1', request`}
    from (${asked}) asked`
}
