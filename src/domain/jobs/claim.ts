// The life of a job row: claimed under a lease, renewed, settled behind its fence, found again when it was lost.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import type { Failure } from '#core/outcome.ts'

/** A lease lasts this long unless renewed; the database's clock decides. */
const LEASE_MS = 4000
/** Attempts that are looked back at. */
const RECENT_ATTEMPTS = 20

/** A provider call as it was stored with the job. */
type ProviderCall = {
  generation: number
  key: string
  operation: string
  request: Json
  /** It may be looked up, never sent: its key is too old, or its effect was given up as unknown. */
  look_only: boolean
  /** An attempt before this one may have reached the provider: it was ambiguous, or never came to an end. */
  in_doubt: boolean
  /** How long each try has been turned away before it had an effect; null when the last one was not, or came to no end. */
  refused_ms: number | null
  /** What the provider calls its effect, where somebody said so before it was settled. */
  reference: string | null
}

/** A job that this process holds until its lease lapses; `lease_token` is the fencing token of every write. */
export type ClaimedJob = {
  id: string
  tenant_id: string
  queue: string
  name: string
  payload: Json
  /** The request that asked for it; null where none did. */
  request_id: string | null
  attempt: number
  max_attempts: number
  /** How many of the last attempts before this one failed; what was given back untouched is none. */
  failures: number
  lease_token: string
  waited_ms: number
  age_ms: number
  /** Since the effect of its call became unknown; null while it is not. */
  unknown_ms: number | null
  call: ProviderCall | null
}

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

/** Whether the call `c` may not be sent again: a provider keeps a key for 24 hours. */
export function keyIsTooOld(sql: Sql): Fragment {
  return sql`c.first_sent_at < now() - interval '23 hours'`
}

/**
 * Claims those of `ids` that are due, not paused, not held by anyone and called one of `names`: during a deployment there are
 * jobs that only another version knows. Writes the attempt and marks the provider call as sent before it is, unless it may
 * only be looked up. One statement; the answer holds only what was claimed.
 */
export async function claimJobs(
  sql: Sql,
  ids: string[],
  { worker, names }: { worker: string; names: readonly string[] },
): Promise<ClaimedJob[]> {
  const look_only = sql`(claimed.unknown_since is not null or ${keyIsTooOld(sql)})`
  return await sql<ClaimedJob[]>`
    with due as (
      select j.id, j.state from (select unnest(${ids}::uuid[]) as id order by 1) asked
      cross join lateral (
        select j.id, j.state from jobs j
        where j.id = asked.id and j.run_at <= now() and j.name = any(${[...names]}::text[])
          and (j.state in ('ready', 'unknown') or (j.state = 'running' and j.lease_until <= now()))
          and not exists (
            select from pauses p where (p.queue is null or p.queue = j.queue) and (p.tenant_id is null or p.tenant_id = j.tenant_id))
        for update of j skip locked
      ) j
    ), claimed as (
      update jobs j set state = 'running', attempt = j.attempt + 1, lease_token = gen_random_uuid(),
        lease_until = now() + ${LEASE_MS} * interval '1 millisecond', started_at = coalesce(j.started_at, now())
      from due where j.id = due.id
      returning j.*, due.state as was
    ), attempted as (
      insert into job_attempts (tenant_id, job_id, attempt, worker, started_at)
      select tenant_id, id, attempt, ${worker}, now() from claimed
    ), sent as (
      update provider_calls c set last_sent_at = now(),
        first_sent_at = case when ${look_only} then c.first_sent_at else coalesce(c.first_sent_at, now()) end,
        -- What nobody took up for an hour was paused, and was not turned away meanwhile; what came to no end may have got in.
        refused_since = case when claimed.was <> 'running' and claimed.run_at > now() - interval '1 hour' then c.refused_since end
      from claimed where c.tenant_id = claimed.tenant_id and c.job_id = claimed.id and c.outcome is null
      returning c.*, coalesce(${look_only}, false) as look_only
    )
    select j.id, j.tenant_id, j.queue, j.name, j.payload, j.trace_context as request_id, j.attempt, j.max_attempts, j.lease_token,
      case when j.attempt = 1 then 0 else (
        select count(*) from job_attempts a
        where a.tenant_id = j.tenant_id and a.job_id = j.id and a.attempt between j.attempt - ${RECENT_ATTEMPTS} and j.attempt - 1
          and coalesce(a.outcome, 'lost') in ('retry', 'ambiguous', 'lost')) end as failures,
      extract(epoch from now() - j.run_at)::float8 * 1000 as waited_ms,
      extract(epoch from now() - j.created_at)::float8 * 1000 as age_ms,
      extract(epoch from now() - j.unknown_since)::float8 * 1000 as unknown_ms,
      case when c.job_id is not null then jsonb_build_object(
        'generation', c.generation, 'key', c.key, 'operation', c.operation, 'request', c.request,
        'look_only', c.look_only, 'in_doubt', c.look_only or c.first_sent_at <> c.last_sent_at,
        'refused_ms', extract(epoch from now() - c.refused_since)::float8 * 1000, 'reference', c.provider_reference) end as call
    from claimed j left join sent c on c.job_id = j.id`
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

/** Closes a settling statement: the job rows, attempts and provider calls of what is `held`. Answers as `job (id, state)`. */
export function finishing(sql: Sql | Tx): Fragment {
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
          else coalesce(now() + held.delay_ms * interval '1 millisecond', 'infinity') end,
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

/**
 * Renews the leases that are still ours; answers the ids of those. One whose row is locked is passed over and not lost: its own
 * settlement has it, perhaps waiting behind others, and who waited for that would lose all the other leases.
 */
export async function renewLeases(
  sql: Sql,
  leases: { id: string; lease_token: string }[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    with held as (
      select j.id from (
        select * from jsonb_to_recordset(${sql.json(leases)}) as l(id uuid, lease_token uuid) order by id
      ) l
      cross join lateral (
        select j.id from jobs j where j.id = l.id and j.lease_token = l.lease_token and j.lease_until > now()
        for update skip locked
      ) j
    )
    update jobs j set lease_until = now() + ${LEASE_MS} * interval '1 millisecond' from held where j.id = held.id returning j.id`
  return new Set(rows.map((row) => row.id))
}

export type JobOutcome = { id: string; state: string; last_error: Settlement['error'] }

/** How jobs stand; ids that do not exist are left out. */
export async function findOutcomes(sql: Sql, ids: string[]): Promise<JobOutcome[]> {
  const found = await sql<JobOutcome[]>`select id, state, last_error from jobs where id = any(${ids}::uuid[])`
  if (found.length === ids.length) return found
  const known = new Set(found.map(({ id }) => id))
  const old = ids.filter((id) => !known.has(id))
  return [
    ...found,
    ...(await sql<
      JobOutcome[]
    >`select id, state, last_error from job_history where id = any(${old}::uuid[])`),
  ]
}

/** How many jobs have an effect at their provider that nobody knows. */
export async function countUnknown(sql: Sql): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*) from jobs where finished_at is null and unknown_since is not null`
  return row!.count
}

/** Stops claims of a queue, of a tenant, or of a tenant in a queue: no provider call starts from a second later on. */
export async function pauseJobs(
  sql: Sql,
  what: { queue?: string; tenant_id?: string; reason?: string },
): Promise<void> {
  await sql`
    insert into pauses (queue, tenant_id, reason) values (${what.queue ?? null}, ${what.tenant_id ?? null}, ${what.reason ?? null})
    on conflict do nothing`
}

/** Lifts a pause. */
export async function resumeJobs(sql: Sql, what: { queue?: string; tenant_id?: string }): Promise<void> {
  await sql`
    delete from pauses
    where queue is not distinct from ${what.queue ?? null} and tenant_id is not distinct from ${what.tenant_id ?? null}`
}
