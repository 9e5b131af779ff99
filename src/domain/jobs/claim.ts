// Jobs under a lease: claimed and renewed.
import type { Json, Sql } from '#core/db.ts'
import { keyIsTooOld, type ProviderCall } from './calls.ts'

/** A lease lasts this long unless renewed; the database's clock decides. */
export const LEASE_MS = 4000

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
  /** How many attempts failed since one last got an answer; what was given back untouched does not count. */
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
 * jobs that only another version knows. Marks the provider call as sent before it is, unless it may only be looked up. Of a job
 * whose lease has lapsed the lost attempt is written down, and its call is in doubt. One statement; the answer holds only what
 * was claimed.
 */
export async function claimJobs(
  sql: Sql,
  ids: string[],
  { worker, names }: { worker: string; names: readonly string[] },
): Promise<ClaimedJob[]> {
  const look_only = sql`(j.unknown_since is not null or coalesce(${keyIsTooOld(sql)}, false))`
  return await sql<ClaimedJob[]>`
    with due as (
      select j.* from (select unnest(${ids}::uuid[]) as id order by 1) asked
      cross join lateral (
        select j.tenant_id, j.id, j.attempt, j.worker, j.started_at, j.state = 'running' as lapsed from jobs j
        where j.id = asked.id and j.run_at <= now() and j.name = any(${[...names]}::text[])
          and (j.state in ('ready', 'unknown') or (j.state = 'running' and j.lease_until <= now()))
          and not exists (
            select from pauses p where (p.queue is null or p.queue = j.queue) and (p.tenant_id is null or p.tenant_id = j.tenant_id))
        for update of j skip locked
      ) j
    ), lost as (
      insert into job_attempts (tenant_id, job_id, attempt, worker, started_at)
      select tenant_id, id, attempt, worker, started_at from due where lapsed
    ), claimed as (
      update jobs j set state = 'running', attempt = j.attempt + 1, worker = ${worker}, started_at = now(),
        lease_token = gen_random_uuid(), lease_until = now() + ${LEASE_MS} * interval '1 millisecond',
        failures = j.failures + due.lapsed::integer,
        in_doubt = j.in_doubt or (due.lapsed and j.operation is not null),
        first_sent_at = case when j.operation is null or ${look_only} then j.first_sent_at else coalesce(j.first_sent_at, now()) end,
        last_sent_at = case when j.operation is not null then now() end,
        -- What nobody took up for an hour was paused, and was not turned away meanwhile; what came to no end may have got in.
        refused_since = case when not due.lapsed and j.run_at > now() - interval '1 hour' then j.refused_since end
      from due where j.id = due.id
      returning j.*, ${look_only} as look_only
    )
    select id, tenant_id, queue, name, payload, request_id, attempt, max_attempts, failures, lease_token,
      extract(epoch from now() - run_at)::float8 * 1000 as waited_ms,
      extract(epoch from now() - created_at)::float8 * 1000 as age_ms,
      extract(epoch from now() - unknown_since)::float8 * 1000 as unknown_ms,
      case when operation is not null then jsonb_build_object(
        'generation', generation, 'key', key, 'request', request,
        'look_only', look_only, 'in_doubt', look_only or in_doubt,
        'refused_ms', extract(epoch from now() - refused_since)::float8 * 1000, 'reference', provider_reference) end as call
    from claimed`
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
