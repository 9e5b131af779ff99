// Leases: claims jobs and renews their leases.
import type { Fragment, Json, Sql } from '#core/db.ts'
import { mayHaveLost } from '../switches/losses.ts'
import { isHeldBy, serverInUse, waitEndedAt } from '../switches/holds.ts'
import { isKeyTooOld, KEY_CONFLICT, type ProviderCall, type SendHistory } from './calls.ts'

/** The duration of a lease that is not renewed, by the database's clock. */
export const LEASE_MS = 4000

/**
 * A job claimed by this process until its lease lapses. `lease_token` is the fencing token of every write for
 * the job.
 */
export type ClaimedJob = {
  id: string
  tenant_id: string
  queue: string
  name: string
  payload: Json
  /** The API request that created the job; null if none did. */
  request_id: string | null
  /** The trace context of the span that created the job, or of the earlier attempt at its delivery. */
  trace_context: string | null
  /** Whether this is the first attempt at the work. Each attempt at a delivery is a job of its own. */
  is_first_attempt: boolean
  attempt: number
  /** When the attempt was claimed. */
  started_at: string
  max_attempts: number
  /**
   * The number of attempts in a row that ended as `retry` or `ambiguous`, or did not end. Attempts that ended as
   * `returned` or `misconfigured` do not change the number.
   */
  failures: number
  /** The number of attempts in a row that ended with an error of the database. */
  database_failures: number
  lease_token: string
  waited_ms: number
  age_ms: number
  /** The time since the effect of its call became unknown; null while it is known. */
  unknown_ms: number | null
  call: ProviderCall | null
  /** Null without a provider call. */
  send_history: SendHistory | null
}

/**
 * The limit on each tenant's jobs in a queue: `left` jobs, minus the tenant's jobs in `claimed`. `claimed`: the number
 * of claimed jobs by tenant id.
 */
export type TenantShare = { left: number; claimed: Record<string, number> }

/**
 * Claims those jobs of `ids` that are due, not paused, not held since a switch of the database, not claimed by another
 * worker and named in `names` (during a deployment another version may have jobs that this one does not know). Claims
 * nothing on a server that is not the one on record. The provider call is marked
 * as sent before it is sent, unless it may only be looked up. If a lease has lapsed, the lost attempt is
 * recorded and the call is in doubt. A job above its tenant's share is left to the next scan, as if no wake-up
 * had been sent for it. `credentials`: fingerprints of the credentials for the calls, by job name. One
 * statement; returns only the claimed jobs.
 */
export async function claimJobs(
  sql: Sql,
  ids: string[],
  {
    worker,
    names,
    shares = {},
    credentials = {},
  }: {
    worker: string
    names: readonly string[]
    shares?: Record<string, TenantShare>
    credentials?: Readonly<Record<string, string>>
  },
): Promise<ClaimedJob[]> {
  const lookup_only = sql`(j.unknown_since is not null or coalesce(${isKeyTooOld(sql)}, false))`
  const sends = sql`(j.operation is not null and not ${lookup_only})`
  const sent_with = sql`(${sql.json(credentials)}::jsonb ->> j.name)`
  return await sql<ClaimedJob[]>`
    with found as (
      select j.*, row_number() over (partition by j.queue, j.tenant_id order by j.run_at, j.id) as nth
      from (select unnest(${ids}::uuid[]) as id order by 1) requested
      cross join ${serverInUse(sql)} server
      cross join lateral (
        select j.tenant_id, j.id, j.queue, j.run_at, j.attempt, j.worker, j.started_at, j.in_doubt, j.wakeup_sent_at,
          j.state = 'running' as lapsed
        from jobs j
        where j.id = requested.id and j.run_at <= now() and j.name = any(${[...names]}::text[])
          and not ${isHeldBy(sql)}
          and (j.state in ('ready', 'unknown') or (j.state = 'running' and j.lease_until <= now()))
          and not exists (
            select from only pauses p where (p.queue is null or p.queue = j.queue)
              and (p.tenant_id is null or p.tenant_id = j.tenant_id))
        for update of j skip locked
      ) j
    ), judged as (
      select *, coalesce(nth + coalesce((share -> 'claimed' ->> tenant_id::text)::integer, 0)
        <= (share ->> 'left')::integer, true) as fits
      from (select *, ${sql.json(shares)}::jsonb -> queue as share from found) found
    ), due as (
      select * from judged where fits
    ), left_over as (
      update jobs j set wakeup_sent_at = null from judged f
      where j.tenant_id = f.tenant_id and j.id = f.id and not f.fits and f.wakeup_sent_at is not null
    ), lost as (
      insert into job_attempts (tenant_id, job_id, attempt, worker, started_at, in_doubt)
      select tenant_id, id, attempt, worker, started_at, in_doubt from due where lapsed
    ), claimed as (
      update jobs j set state = 'running', attempt = j.attempt + 1, worker = ${worker}, started_at = now(),
        lease_token = gen_random_uuid(), lease_until = now() + ${LEASE_MS} * interval '1 millisecond',
        failures = j.failures + due.lapsed::integer,
        in_doubt = j.in_doubt or (due.lapsed and j.operation is not null),
        first_sent_at = case when ${sends} then coalesce(j.first_sent_at, now()) else j.first_sent_at end,
        last_sent_at = case when ${sends} then now() else j.last_sent_at end,
        sent_with = case when ${sends} and not coalesce(position(${sent_with} in j.sent_with) > 0, false)
          then nullif(concat_ws(' ', j.sent_with, ${sent_with}), '') else j.sent_with end,
        absent_since = case when not ${sends} then j.absent_since end,
        -- Null if the last attempt did not end, or if the job has been due for more than an hour: such a job was
        -- paused, not refused.
        refused_since = case when not due.lapsed and j.run_at > now() - interval '1 hour' then j.refused_since end
      from due where j.id = due.id
      returning j.*, ${lookup_only} as lookup_only
    )
    select ${claimedColumns(sql)} from claimed`
}

/** The columns of a `ClaimedJob`, from a job row with `lookup_only`. */
function claimedColumns(sql: Sql): Fragment {
  return sql`
    id, tenant_id, queue, name, payload, request_id, attempt, started_at, max_attempts, failures, lease_token,
    coalesce((last_error #>> '{context,database_failures}')::integer, 0) as database_failures,
    trace_context, attempt = 1 as is_first_attempt,
    extract(epoch from now() - greatest(run_at, ${waitEndedAt(sql)}))::float8 * 1000 as waited_ms,
    extract(epoch from now() - created_at)::float8 * 1000 as age_ms,
    extract(epoch from now() - unknown_since)::float8 * 1000 as unknown_ms,
    case when operation is not null then jsonb_build_object(
      'generation', generation, 'key', key, 'request', request,
      'lookup_only', lookup_only, 'in_doubt', lookup_only or in_doubt,
      'waited_for_lists', exists (select from database_switches s where s.lists_read_at > created_at),
      'follows_loss', exists (select from database_switches s where ${mayHaveLost(sql)} and s.newest_at < created_at),
      'has_key_conflict', coalesce(last_error ->> 'code' = ${KEY_CONFLICT}, false),
      'refused_ms', extract(epoch from now() - refused_since)::float8 * 1000,
      'reference', provider_reference) end as call,
    case when operation is not null then jsonb_build_object(
      'created_s', extract(epoch from created_at)::float8,
      'first_s', extract(epoch from first_sent_at)::float8, 'last_s', extract(epoch from last_sent_at)::float8,
      'last_ms', extract(epoch from now() - last_sent_at)::float8 * 1000,
      'credentials', sent_with,
      'absent_ms', extract(epoch from now() - absent_since)::float8 * 1000) end as send_history`
}

/**
 * Renews the leases that are still held and returns the ids of their jobs. A job whose row is locked is skipped: the
 * attempt is being settled, so its lease needs no renewal. During a wait for the lock all other leases could lapse.
 */
export async function renewLeases(
  sql: Sql,
  leases: { id: string; lease_token: string }[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    with claimed as (
      select j.id from (
        select * from jsonb_to_recordset(${sql.json(leases)}) as l(id uuid, lease_token uuid) order by id
      ) l
      cross join lateral (
        select j.id from jobs j where j.id = l.id and j.lease_token = l.lease_token and j.lease_until > now()
        for update skip locked
      ) j
    )
    update jobs j set lease_until = now() + ${LEASE_MS} * interval '1 millisecond'
    from claimed where j.id = claimed.id
    returning j.id`
  return new Set(rows.map((row) => row.id))
}
