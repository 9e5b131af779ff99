// Defines jobs and enqueues them: the statement of a request inserts the job's row itself.
import type { z } from 'zod'
import type { CallOperation } from '#core/config/providers.ts'
import type { QueueName } from '#core/config/queues.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { traceColumn } from '#core/tracing.ts'

/** The definition of a job. Recurring work is not a job: see `workers/recurring`. */
export type JobDefinition<
  Name extends string = string,
  Payload extends z.ZodType = z.ZodType,
  Call extends CallDefinition | null = CallDefinition | null,
> = {
  /** `<resource>.<verb>`; the job's handler is registered under this name. */
  name: Name
  queue: QueueName
  /** Ids, and nothing that the rows with these ids have. */
  payload: Payload
  /** The provider call that has the job's effect; null for a job without an external effect. */
  call: Call
  retry: RetrySchedule
  /** The maximum number of attempts that may die with their process or throw. Other attempts do not count. */
  max_attempts: number
}

export type CallDefinition<Request extends z.ZodType = z.ZodType> = {
  /** The provider's name in logs and metrics. */
  provider: string
  operation: CallOperation
  /**
   * The schema of the request that `enqueuing` stores. The stored request is parsed again before it is sent, possibly
   * by another version.
   */
  request: Request
  /**
   * How an ambiguous attempt continues. `resend_same_key`: the call is sent again, because the provider does nothing
   * twice under one key. `lookup`: the call is only looked up; the handler sees `lookup_only`, and decides `unknown`
   * if it finds nothing. `repeat`: the call is always sent again, because repeating it is harmless.
   */
  on_ambiguous: 'resend_same_key' | 'lookup' | 'repeat'
  /**
   * The maximum duration of a request, from its first byte to the end of the response; at most the limit of the
   * provider's client.
   */
  deadline_ms: number
  /**
   * The status of the resource while the call is in progress; several values if the status also shows whether an
   * attempt is running; null if the status does not depend on the call.
   */
  status: string | readonly string[] | null
  /**
   * The calls with which this one waits after the database has lost changes (see `domain/switches/holds.ts`), until the
   * lists of the providers have been read. `payouts`: those that create what cannot be undone. `creations`: those that
   * create something that may exist already; they wait if providers may have forgotten the keys of lost requests. Null:
   * this call does not wait.
   */
  held_with: 'payouts' | 'creations' | null
  /** The job may also succeed without sending the call, if the call is no longer needed. */
  dispensable?: true
  /**
   * The format of the provider's id of the object that the call creates; null if the call changes an existing object.
   */
  makes: { id: RegExp; example: string } | null
}

export type RetrySchedule = {
  /**
   * The upper bound of the first delay. The bound doubles with each further failure in a row, up to `cap_ms`. Each
   * delay is a random value between 10 % and 100 % of its bound.
   */
  base_ms: number
  cap_ms: number
  /** The delays of lookups after the effect became unknown; the last one repeats. */
  lookup_delays_ms: readonly number[]
}

export const MAX_ATTEMPTS = 25
/** The delays of lookups after an effect became unknown; the last one, a day, repeats. */
export const LOOKUP_DELAYS_MS = [5_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 24 * 3_600_000]
const RETRY: RetrySchedule = {
  base_ms: 500,
  cap_ms: 10 * 60_000,
  lookup_delays_ms: LOOKUP_DELAYS_MS,
}

/** Declares a job. Default `max_attempts`: 25. Default `retry`: 0.5 s, doubled up to 10 minutes. */
export function defineJob<Name extends string, Payload extends z.ZodType, Call extends CallDefinition | null>(
  job: Omit<JobDefinition<Name, Payload, Call>, 'retry' | 'max_attempts'> &
    Partial<Pick<JobDefinition, 'retry' | 'max_attempts'>>,
): JobDefinition<Name, Payload, Call> {
  return { retry: RETRY, max_attempts: MAX_ATTEMPTS, ...job }
}

/** Claims a job in the statement that inserts it: its first attempt begins under this lease. */
export type ClaimedBy = { worker: string; lease_ms: number }

/**
 * Inserts job rows as a part of the statement that requests them. `requested` selects one row for each job: `job_id,
 * tenant_id, resource_id, payload, will_wake` (true: this process sends a wake-up right after the commit; false: a
 * worker's sweep finds the job), `dedupe_key` (prevents a second job if the statement is repeated; null if the
 * statement itself prevents that) and `request_id`, for the log. A job with a provider call also needs `request`, the
 * exact parameters: neither a retry nor a deployment changes what is sent under a key. `run_at`: when the job is due.
 * Default: at once. `claimed_by`: the worker that has the job from the start. Default of `trace_context`: that of
 * the current span, because a statement with a span writes rows of that span only. Default of `name`: that of the job.
 */
export function enqueuing(
  sql: Sql | Tx,
  job: JobDefinition,
  requested: Fragment,
  run_at?: Fragment,
  claimed_by?: ClaimedBy,
  trace_context?: Fragment,
  name: Fragment = sql`${job.name}`,
): Fragment {
  const { call } = job
  const trace =
    trace_context === undefined
      ? traceColumn(sql)
      : { name: sql`, trace_context`, value: sql`, ${trace_context}` }
  const claimed = claimed_by && {
    columns: sql`, state, attempt, worker, started_at, lease_token, lease_until`,
    values: sql`
      , 'running', 1, ${claimed_by.worker}, now(), gen_random_uuid(),
      clock_timestamp() + ${claimed_by.lease_ms} * interval '1 millisecond'`,
  }
  return sql`
    insert into jobs (id, tenant_id, queue, name, resource_id, payload, max_attempts, wakeup_sent_at, dedupe_key,
      request_id ${trace.name}
      ${run_at === undefined ? sql`` : sql`, run_at`}
      ${call === null ? sql`` : sql`, operation, generation, key, request`} ${claimed?.columns ?? sql``})
    select job_id, tenant_id, ${job.queue}, ${name}, resource_id, payload, ${job.max_attempts}::integer,
      case when will_wake then now() end, dedupe_key, request_id ${trace.value}
      ${run_at === undefined ? sql`` : sql`, ${run_at}`}
      ${call === null ? sql`` : sql`, ${call.operation}, 1, job_id || ':1', request`} ${claimed?.values ?? sql``}
    from (${requested}) requested`
}

/** The SQL expression for each field of a job's request. */
export type SelectedRequest<Request extends z.ZodType> = { [Field in keyof z.input<Request>]: Fragment }

/** Whether a stored request differs only by fields of a newer version. */
export function isFromNewerVersion({ issues }: z.ZodError): boolean {
  return issues.every(({ code }) => code === 'unrecognized_keys')
}

/** The request of a job's call as JSON, to be selected as `request` for `enqueuing`. */
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
