// The end of an attempt: settled behind the fence of its lease, with its job row, attempt and provider call.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import type { Failure } from '#core/outcome.ts'

/** What became of an attempt, as the job row, the attempt and the provider call record it. */
export type Settlement = {
  job_id: string
  lease_token: string
  attempt: number
  /** `running`: what it learnt is written, and it goes on under its lease. */
  state: 'succeeded' | 'failed' | 'ready' | 'unknown' | 'discarded' | 'running'
  outcome: string
  error: (Omit<Failure, 'code'> & { code: string }) | null
  /** Until the next attempt (`ready`) or the next look (`unknown`); null: when an operator says so. */
  delay_ms: number | null
  /** Closes the provider call; null leaves it open, to be made again under the same key. */
  call_outcome: 'done' | 'declined' | null
  provider_reference: string | null
  /** Closes the call and opens the next generation, with a new key: only after a definitive failure. */
  rotate: boolean
  /** Nothing left: if no other attempt may have sent the call, it counts as never sent. */
  unsent: boolean
  /** The attempt does not count: only those count that ended in no known way. */
  forgive: boolean
}

/**
 * The fence: opens a settling statement with `held`, the settlements whose lease is still ours, their rows locked. Every
 * later part selects from it: what lost its lease changes nothing. `change` is what the noun's own parts read. The rows are
 * looked up one by one, in order (`lateral`): no plan can scan for them, and no two batches can deadlock over them.
 */
export function holding(sql: Sql | Tx, settlements: (Settlement & { change?: Json })[]): Fragment {
  return sql`
    held as (
      select s.*, j.tenant_id, j.request_id
      from (
        select * from jsonb_to_recordset(${sql.json(settlements)}) as s(
          job_id uuid, lease_token uuid, attempt integer, state text, outcome text, error jsonb, delay_ms float8,
          call_outcome text, provider_reference text, rotate boolean, unsent boolean, forgive boolean, change jsonb)
        order by job_id
      ) s
      cross join lateral (
        select j.tenant_id, j.trace_context as request_id from jobs j
        where j.id = s.job_id and j.lease_token = s.lease_token and j.lease_until > now()
        for update
      ) j
    )`
}

/**
 * Closes a settling statement: the job rows, attempts and provider calls of what is `held`. Answers as `job (id, state)`.
 * `delay_ms`: where the statement itself finds out when to come again.
 */
export function finishing(sql: Sql | Tx, delay_ms: Fragment = sql`held.delay_ms`): Fragment {
  return sql`
    call as (
      update provider_calls c set outcome = case when held.rotate then 'rotated' else held.call_outcome end,
        provider_reference = coalesce(held.provider_reference, c.provider_reference),
        -- The tokens of a call that is over are of no more use.
        request = case when held.call_outcome is null then c.request else c.request - 'sealed' end,
        -- Equal only while no other attempt may have sent it.
        first_sent_at = case when held.unsent and c.first_sent_at = c.last_sent_at then null else c.first_sent_at end,
        last_sent_at = case when held.unsent and c.first_sent_at = c.last_sent_at then null else c.last_sent_at end,
        refused_since = case when held.unsent and held.outcome = 'retry' then coalesce(c.refused_since, now())
          when held.unsent and held.outcome = 'returned' then c.refused_since end
      from held where c.tenant_id = held.tenant_id and c.job_id = held.job_id and c.outcome is null
        and (held.rotate or held.call_outcome is not null or held.unsent or c.refused_since is not null
          or held.provider_reference is not null)
      returning c.tenant_id, c.job_id, c.generation, c.operation, c.request, held.rotate
    ), rotated as (
      insert into provider_calls (tenant_id, job_id, generation, key, operation, request)
      select tenant_id, job_id, generation + 1, job_id || ':' || generation + 1, operation, request from call where rotate
    ), attempt as (
      update job_attempts a set ended_at = clock_timestamp(), outcome = held.outcome, error = held.error
      from held where a.tenant_id = held.tenant_id and a.job_id = held.job_id and a.attempt = held.attempt and held.state <> 'running'
    ), job as (
      update jobs j set state = held.state, last_error = held.error,
        lease_token = case when held.state = 'running' then j.lease_token end,
        lease_until = case when held.state = 'running' then j.lease_until end,
        run_at = case when held.state not in ('ready', 'unknown') then j.run_at
          else coalesce(now() + ${delay_ms} * interval '1 millisecond', 'infinity') end,
        rung_at = case when held.state in ('ready', 'unknown') then null else j.rung_at end,
        max_attempts = j.max_attempts + held.forgive::integer,
        unknown_since = case when held.state = 'unknown' then coalesce(j.unknown_since, now()) when not held.rotate then j.unknown_since end,
        finished_at = case when held.state in ('succeeded', 'failed', 'discarded') then now() end
      from held where j.id = held.job_id
      returning j.id, j.state
    )`
}

/** Settles attempts that change nothing but the job. Answers the ids that were still ours. */
export async function settleJobs(sql: Sql, settlements: Settlement[]): Promise<Set<string>> {
  const rows = await sql<
    { id: string }[]
  >`with ${holding(sql, settlements)}, ${finishing(sql)} select id from job`
  return new Set(rows.map((row) => row.id))
}
