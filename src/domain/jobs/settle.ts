// Settles attempts: writes the outcome of an attempt to the row of its job, fenced by its lease, and checks later
// whether it was written.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import type { AttemptOutcome, Failure } from '#core/outcome.ts'
import type { ClaimedJob } from './claim.ts'

/**
 * The outcome of an attempt. If it finishes the job, the provider call is finished too; otherwise the call is
 * made again with the same key.
 */
export type Settlement = {
  job_id: string
  lease_token: string
  /** `running`: the reported changes are written, and the attempt continues under its lease. */
  state: 'succeeded' | 'failed' | 'ready' | 'unknown' | 'discarded' | 'running'
  outcome: AttemptOutcome
  error: (Omit<Failure, 'code'> & { code: string }) | null
  /**
   * The delay until the next attempt (`ready`) or the next lookup (`unknown`); null: parked until an operator
   * retries it.
   */
  delay_ms: number | null
  /** The provider's id of the object that the call created or changed; null if unknown. */
  provider_reference: string | null
  /** Starts the next generation of the call, with a new key: only after a definitive failure. */
  rotate: boolean
  /** The attempt sent nothing: the call counts as never sent, unless another attempt may have sent it. */
  unsent: boolean
  /** The provider's complete list showed no effect, long enough after the call was last sent. */
  absent?: boolean
  /** The attempt does not count towards `max_attempts`: only attempts that died or threw count. */
  forgive: boolean
  /** Whether the attempt failed, so that the job is retried; null leaves `failing_since` unchanged. */
  failing: boolean | null
}

/**
 * The code of the error of an attempt that ended with an error of the database. `context.database_failures`: the number
 * of such attempts in a row.
 */
export const DATABASE_FAILED = 'database_unavailable'

/** A row to settle as failed, because an operator reports that its call did not take effect. */
export type FailedRow = {
  tenant_id: string
  id: string
  /** The id of the root row to which the row's job belongs. */
  root_id: string
  operation: string
  failure: { code: string; message: string }
}

/**
 * The fence, the first part of a settling statement: `fenced` contains the settlements whose job no other worker has
 * claimed, with their job rows locked. Every later part selects from it, so a job that was claimed again changes
 * nothing. An expired lease may still be settled, because its answer stays true until somebody else acts on the job,
 * and that takes another token. But an attempt that continues needs its lease: it may send calls. `change`: the update
 * of the resource, which later parts read. The rows are looked up one by one, in order (`lateral`): no plan can scan
 * the table, and no two batches can deadlock.
 */
export function fencing(sql: Sql | Tx, settlements: (Settlement & { change?: Json })[]): Fragment {
  return sql`
    fenced as (
      select s.*, j.*,
        s.state in ('ready', 'unknown') as continues,
        s.state in ('succeeded', 'failed', 'discarded') as is_final
      from (
        select * from jsonb_to_recordset(${sql.json(settlements)}) as s(
          job_id uuid, lease_token uuid, state text, outcome text, error jsonb, delay_ms float8,
          provider_reference text, rotate boolean, unsent boolean, absent boolean, forgive boolean, failing boolean,
          change jsonb)
        order by job_id
      ) s
      cross join lateral (
        select j.tenant_id, j.request_id, j.attempt, j.worker, j.started_at, j.generation, j.key, j.first_sent_at,
          j.last_sent_at, j.in_doubt, j.provider_reference as stored_reference,
          -- Only this attempt can have sent the call, and it did not.
          (s.unsent and j.first_sent_at = j.last_sent_at and not j.in_doubt) is true as never_sent
        from jobs j
        where j.id = s.job_id and j.lease_token = s.lease_token and (s.state <> 'running' or j.lease_until > now())
        for update
      ) j
    )`
}

/**
 * The last parts of a settling statement: they update the `fenced` jobs and record the attempts that did not finish
 * their job. If the call gets a new key, the attempt is recorded with the previous key. The part `job` has `id, state`.
 * `delay_ms`: the delay until the next attempt, if the statement computes it.
 * A part that no settlement needs is left out: each costs time, even without rows.
 */
export function finishing(
  sql: Sql | Tx,
  settlements: Pick<Settlement, 'state'>[],
  delay_ms: Fragment = sql`fenced.delay_ms`,
): Fragment {
  const attempts = sql`
    attempt as (
      insert into job_attempts (tenant_id, job_id, attempt, worker, started_at, ended_at, outcome, error, in_doubt,
        generation, key, first_sent_at, last_sent_at, provider_reference)
      select fenced.tenant_id, fenced.job_id, fenced.attempt, fenced.worker, fenced.started_at, clock_timestamp(),
        fenced.outcome, fenced.error, fenced.in_doubt, previous_call.*
      from fenced left join lateral (
        select fenced.generation, fenced.key, fenced.first_sent_at, fenced.last_sent_at,
          coalesce(fenced.provider_reference, fenced.stored_reference)
      ) previous_call on fenced.rotate
      where fenced.continues
    ),`
  const continues = settlements.some(({ state }) => state === 'ready' || state === 'unknown')
  const run_at = sql`
    case when not fenced.continues then j.run_at
      else coalesce(due_after(fenced.tenant_id, ${delay_ms} * interval '1 millisecond'), 'infinity') end`
  return sql`
    ${continues ? attempts : sql``}
    job as (
      update jobs j set state = fenced.state, last_error = fenced.error,
        lease_token = case when fenced.state = 'running' then j.lease_token end,
        lease_until = case when fenced.state = 'running' then j.lease_until end,
        run_at = ${continues ? run_at : sql`j.run_at`},
        wakeup_sent_at = case when not fenced.continues then j.wakeup_sent_at end,
        worker = case when not fenced.continues then j.worker end,
        started_at = case when not fenced.continues then j.started_at end,
        outcome = case when fenced.is_final then fenced.outcome end,
        max_attempts = j.max_attempts + fenced.forgive::integer,
        failures = case when fenced.outcome in ('retry', 'ambiguous') then j.failures + 1
          when fenced.outcome in ('returned', 'misconfigured') or fenced.state = 'running' then j.failures else 0 end,
        failing_since = case when fenced.failing then coalesce(j.failing_since, now())
          when fenced.failing is null then j.failing_since end,
        unknown_since = case when fenced.state = 'unknown' then coalesce(j.unknown_since, now())
          when not fenced.rotate then j.unknown_since end,
        finished_at = case when fenced.is_final then now() end,
        generation = j.generation + fenced.rotate::integer,
        key = case when fenced.rotate then j.id || ':' || j.generation + 1 else j.key end,
        first_sent_at = case when not (fenced.rotate or fenced.never_sent) then j.first_sent_at end,
        last_sent_at = case when not (fenced.rotate or fenced.never_sent) then j.last_sent_at end,
        sent_with = case when not (fenced.rotate or fenced.never_sent) then j.sent_with end,
        absent_since = case when fenced.absent then coalesce(j.absent_since, now())
          when not fenced.rotate then j.absent_since end,
        -- An attempt that is not marked as unsent may have reached the provider.
        in_doubt = not fenced.rotate
          and (j.in_doubt or (fenced.continues and not fenced.unsent and j.operation is not null)),
        refused_since = case when fenced.unsent and fenced.outcome = 'retry' then coalesce(j.refused_since, now())
          when fenced.unsent and fenced.outcome = 'returned' then j.refused_since end,
        provider_reference = case when not fenced.rotate
          then coalesce(fenced.provider_reference, j.provider_reference) end,
        -- A finished call no longer needs its sealed tokens.
        request = case when fenced.is_final and j.request ? 'sealed' then j.request - 'sealed' else j.request end
      from fenced where j.id = fenced.job_id
      returning j.id, j.state
    )`
}

/** Settles attempts that change nothing but the job. Returns the ids of the jobs that passed the fence. */
export async function settleJobs(sql: Sql | Tx, settlements: Settlement[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, settlements)}, ${finishing(sql, settlements)} select id from job`
  return new Set(rows.map((row) => row.id))
}

/**
 * Whether this attempt was settled with this outcome. `started_at` identifies the attempt: after a failover that lost
 * the claim, another worker's attempt can have the same number.
 */
export async function wasSettled(
  sql: Sql,
  { tenant_id, id, attempt, started_at }: ClaimedJob,
  outcome: Settlement['outcome'],
): Promise<boolean> {
  const found = await sql`
    select from all_job_attempts where tenant_id = ${tenant_id} and job_id = ${id} and attempt = ${attempt}
      and started_at = ${started_at} and outcome = ${outcome}`
  return found.length > 0
}
