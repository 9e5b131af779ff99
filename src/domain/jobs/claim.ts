// Jobs under a lease: claimed and renewed.
import type { Json, Sql } from '#core/db.ts'
import { keyIsTooOld, type ProviderCall } from './calls.ts'

/** A lease lasts this long unless renewed; the database's clock decides. */
export const LEASE_MS = 4000
/** Attempts that are looked back at. */
const RECENT_ATTEMPTS = 20

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
        'generation', c.generation, 'key', c.key, 'request', c.request,
        'look_only', c.look_only, 'in_doubt', c.look_only or c.first_sent_at <> c.last_sent_at,
        'refused_ms', extract(epoch from now() - c.refused_since)::float8 * 1000, 'reference', c.provider_reference) end as call
    from claimed j left join sent c on c.job_id = j.id`
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
