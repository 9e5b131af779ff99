// What a job is, and how a step asks for one: the row is written by the step itself.
import type { z } from 'zod'
import type { Fragment, Sql, Tx } from '#core/db.ts'

export const QUEUES = ['payments', 'notifications'] as const
export type QueueName = (typeof QUEUES)[number]

/** All that is particular to a job. A deadline or a clock of its own is declared here by the first job that has one. */
export type JobDefinition<
  Name extends string = string,
  Payload extends z.ZodType = z.ZodType,
  Call extends CallDefinition | null = CallDefinition | null,
> = {
  /** `<noun>.<verb>`, also the key of its handler. */
  name: Name
  queue: QueueName
  /** Ids only: what a job needs to know it reads from the rows they name. */
  payload: Payload
  /** The call to a provider that has its effect; null: it has none outside. */
  call: Call
  retry: RetrySchedule
  /** How often it may end in no known way: with its process, or throwing. Other attempts do not count. */
  max_attempts: number
}

/**
 * After an attempt whose effect nobody knows each call is sent again under its key, as no provider of ours does anything twice
 * under one. One that keeps no keys needs another rule, `on_ambiguous`: here, in `calling` and in `settlementOf`.
 */
export type CallDefinition<Request extends z.ZodType = z.ZodType> = {
  operation: string
  /** What is stored with the job and sent, whichever version does so: written by `enqueue`, parsed before it is sent. */
  request: Request
}

type RetrySchedule = {
  /** The delay doubles with each failure in a row, up to the cap, and is drawn from the upper nine tenths of that. */
  base_ms: number
  cap_ms: number
  /** How long after its effect became unknown it is looked at again; then as often as the last of these. */
  looks_ms: readonly number[]
}

export const MAX_ATTEMPTS = 25
const RETRY: RetrySchedule = {
  base_ms: 500,
  cap_ms: 10 * 60_000,
  looks_ms: [5_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 24 * 3_600_000],
}

/** Declares a job. `max_attempts` defaults to 25; `retry` to 0.5 s, doubled up to 10 minutes. */
export function defineJob<Name extends string, Payload extends z.ZodType, Call extends CallDefinition | null>(
  job: Omit<JobDefinition<Name, Payload, Call>, 'retry' | 'max_attempts'> &
    Partial<Pick<JobDefinition, 'retry' | 'max_attempts'>>,
): JobDefinition<Name, Payload, Call> {
  return { retry: RETRY, max_attempts: MAX_ATTEMPTS, ...job }
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
      ${call === null ? sql`` : sql`, operation, generation, key, request`})
    select job_id, tenant_id, ${job.queue}, ${job.name}, subject_id, payload, ${job.max_attempts}::integer,
      case when rung then now() end, dedupe_key, request_id
      ${call === null ? sql`` : sql`, ${call.operation}, 1, job_id || ':1', request`}
    from (${asked}) asked`
}

/** How the step that asks for a job selects each field of its request. */
export type SelectedRequest<Request extends z.ZodType> = { [Field in keyof z.input<Request>]: Fragment }

/** The request of a job's call as its row keeps it: `enqueue` selects it as `request`. */
export function requestJson<Request extends z.ZodType>(
  sql: Sql | Tx,
  _job: JobDefinition<string, z.ZodType, CallDefinition<Request>>,
  request: SelectedRequest<Request>,
): Fragment {
  const fields = Object.entries<Fragment>(request).map(
    ([name, value], index) => sql`${index === 0 ? sql`` : sql`,`} ${value} as ${sql(name)}`,
  )
  return sql`(select to_jsonb(request) from (select ${fields}) request)`
}
