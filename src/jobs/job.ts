// What a job is, and how a statement asks for one: it inserts the job's row itself.
import type { z } from 'zod'
import type { QueueName } from '#core/config/queues.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** All that is particular to a job. What comes again by the clock is no job: see `workers/recurring`. */
export type JobDefinition<
  Name extends string = string,
  Payload extends z.ZodType = z.ZodType,
  Call extends CallDefinition | null = CallDefinition | null,
> = {
  /** `<resource>.<verb>`, also the key of its handler. */
  name: Name
  queue: QueueName
  /** Ids only: the job reads everything else from the rows that they name. */
  payload: Payload
  /** The provider call that has the job's effect; null when the job has no effect outside. */
  call: Call
  retry: RetrySchedule
  /** How many attempts may die with their process or throw. Attempts that end in any other way do not count. */
  max_attempts: number
}

export type CallDefinition<Request extends z.ZodType = z.ZodType> = {
  /** Who is called, as the log and the metrics name it. */
  provider: string
  operation: string
  /** What is stored with the job by `enqueue`, and parsed again before it is sent, perhaps by another version. */
  request: Request
  /**
   * After an attempt whose effect nobody knows: sent again, where the provider does nothing twice under one key; else only
   * looked up from then on, by a handler that sees `lookup_only` and decides `unknown` where nothing can be found.
   * `repeat`: sent again however old it is, because it does no harm to happen twice.
   */
  on_ambiguous: 'resend_same_key' | 'lookup' | 'repeat'
  /** How long a request may take from its first byte to the end of its answer; at most what the provider's client allows. */
  deadline_ms: number
  /**
   * The status of the noun's row while the call is under way; several where it also shows whether an attempt is; null:
   * its status does not depend on the call.
   */
  status: string | readonly string[] | null
  /** Its job also succeeds where the call was not needed any more, so that none was sent. */
  dispensable?: true
  /** How the provider's ids of what the call makes look; null when it changes something that the provider knows. */
  makes: { id: RegExp; example: string } | null
}

type RetrySchedule = {
  /** The delay doubles with each failure in a row, up to the cap, and is drawn from the upper nine tenths of that. */
  base_ms: number
  cap_ms: number
  /**
   * How long after its effect became unknown the provider is asked about it again; after that, at the last of these
   * intervals.
   */
  lookup_delays_ms: readonly number[]
}

export const MAX_ATTEMPTS = 25
/** How long after it became unknown something at a provider is asked about; later once a day. */
export const LOOKUP_DELAYS_MS = [5_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 24 * 3_600_000]
const RETRY: RetrySchedule = {
  base_ms: 500,
  cap_ms: 10 * 60_000,
  lookup_delays_ms: LOOKUP_DELAYS_MS,
}

/** Declares a job. `max_attempts` defaults to 25; `retry` to 0.5 s, doubled up to 10 minutes. */
export function defineJob<Name extends string, Payload extends z.ZodType, Call extends CallDefinition | null>(
  job: Omit<JobDefinition<Name, Payload, Call>, 'retry' | 'max_attempts'> &
    Partial<Pick<JobDefinition, 'retry' | 'max_attempts'>>,
): JobDefinition<Name, Payload, Call> {
  return { retry: RETRY, max_attempts: MAX_ATTEMPTS, ...job }
}

/** Claims a job by the statement that inserts it: its first attempt begins under this lease. */
export type ClaimedBy = { worker: string; lease_ms: number }

/**
 * Inserts job rows as a part of the statement that asks for them. `requested` selects one row for each job: `job_id,
 * tenant_id, subject_id, payload, rung` (true: this process rings right after the commit; false: a worker's sweep
 * will find the job), `dedupe_key` (null where the statement itself can only happen once) and `request_id`, for the
 * log. A job with a provider call also needs `request`, the exact parameters: neither a retry nor a deployment
 * changes what is sent under a key. `run_at`: when a job is due, where that is not at once. `claimed_by`: the worker
 * that has the job from the beginning.
 */
export function enqueue(
  sql: Sql | Tx,
  job: JobDefinition,
  requested: Fragment,
  run_at?: Fragment,
  claimed_by?: ClaimedBy,
): Fragment {
  const { call } = job
  const claimed = claimed_by && {
    columns: sql`, state, attempt, worker, started_at, lease_token, lease_until`,
    values: sql`
      , 'running', 1, ${claimed_by.worker}, now(), gen_random_uuid(),
      clock_timestamp() + ${claimed_by.lease_ms} * interval '1 millisecond'`,
  }
  return sql`
    insert into jobs (id, tenant_id, queue, name, subject_id, payload, max_attempts, wakeup_sent_at, dedupe_key, request_id
      ${run_at === undefined ? sql`` : sql`, run_at`}
      ${call === null ? sql`` : sql`, operation, generation, key, request`} ${claimed?.columns ?? sql``})
    select job_id, tenant_id, ${job.queue}, ${job.name}, subject_id, payload, ${job.max_attempts}::integer,
      case when will_wake then now() end, dedupe_key, request_id
      ${run_at === undefined ? sql`` : sql`, ${run_at}`}
      ${call === null ? sql`` : sql`, ${call.operation}, 1, job_id || ':1', request`} ${claimed?.values ?? sql``}
    from (${requested}) requested`
}

/** The SQL expression for each field of a job's request. */
export type SelectedRequest<Request extends z.ZodType> = { [Field in keyof z.input<Request>]: Fragment }

/** Whether all that is wrong with a stored request are fields that only a newer version knows. */
export function isFromNewerVersion({ issues }: z.ZodError): boolean {
  return issues.every(({ code }) => code === 'unrecognized_keys')
}

/** The request of a job's call as JSON, to be selected as `request` for `enqueue`. */
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
