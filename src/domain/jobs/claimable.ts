// Finds the jobs that a worker can claim without a wake-up, round robin over tenants, and the claimed jobs
// whose calls may start.
import type { Fragment, Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { isOfMode } from '../modes.ts'
import { isInReach, type ScanReach } from '../scan-reach.ts'
import { claimableSince, isHeld, isHeldOrSealed, isQueueHeld, waitEndedAt } from '../switches/holds.ts'
import type { TenantShare } from './claim.ts'

/** The maximum number of tenants with open jobs in one scan, with due jobs or not. */
const TENANTS_PER_SCAN = 250

/**
 * Which due jobs a scan finds. `without_wakeup`: those for which no wake-up was sent, which have an index of their own.
 */
export type ScanKind = ScanReach | 'without_wakeup'

/**
 * A scan of the tenants of one queue for up to `room` jobs, starting `after` a tenant (null: from the first),
 * limited for each tenant by its `share`.
 */
export type QueueScan = { queue: string; room: number; after: string | null; share?: TenantShare }
export type DueJobs = {
  queue: string
  ids: string[]
  /**
   * The number of jobs with a lost wake-up or a lapsed lease; the others waited for a slot, or until a switch of the
   * database was released or a seal ended.
   */
  overdue: number
  /** The number of jobs that a scan of the kind `without_wakeup` does not find. */
  others: number
  /** Where the next scan continues; null: from the first tenant. */
  after: string | null
}

/**
 * Finds due jobs named in `names` that are not claimed and for which no wake-up is expected: none was sent
 * (retries, follow-ups, jobs above their tenant's share), it was sent more than `grace_ms` ago, or the lease
 * has lapsed, with `leaves_lapsed` more than a minute ago. At most `room` jobs for each queue.
 *
 * Round robin: the next job of every tenant precedes the second job of any. A scan steps from tenant to tenant
 * in the index of open jobs, from `after` until it has found `room` tenants with due jobs. Its cost depends on
 * the jobs that it returns, not on the number of waiting tenants and jobs, except those that a switch of the database
 * holds while other jobs of their queue may be claimed. Tenants that it did not reach come first in the next scan. The
 * order and the `offset` force a lookup by the index of open jobs for each tenant: otherwise PostgreSQL may read all
 * open jobs until one matches, or hash all of them.
 */
export async function findDue(
  sql: Sql,
  scans: QueueScan[],
  {
    names,
    grace_ms,
    leaves_lapsed = false,
    kind = 'all',
  }: { names: readonly string[]; grace_ms: number; leaves_lapsed?: boolean; kind?: ScanKind },
): Promise<DueJobs[]> {
  const is_read = kind === 'without_wakeup' ? hasNoWakeUp(sql) : isInReach(sql, kind, sql`j.run_at`)
  const is_unclaimed =
    kind === 'without_wakeup'
      ? sql`j.state <> 'running'`
      : sql`${unclaimed(sql, grace_ms)}
      and not (${leaves_lapsed} and j.state = 'running' and j.lease_until > now() - interval '1 minute')`
  const due = sql`
    j.finished_at is null and j.run_at <= now() and j.name = any(${[...names]}::text[])
    and ${is_read} and ${is_unclaimed} and not ${isHeld(sql)}`
  return await sql<DueJobs[]>`
    with recursive visit as (
      select w.queue, w.room, w.share, coalesce(w.after, ${LOWEST_ID}) as tenant_id, 0 as visited, 0 as served,
        false as due
      from jsonb_to_recordset(${sql.json(scans)}) as w(queue text, room integer, after uuid, share jsonb)
      where w.room > 0 and not exists (select from only pauses p where p.queue = w.queue and p.tenant_id is null)
        and not ${isQueueHeld(sql, sql`w.queue`)}
      union all
      select v.queue, v.room, v.share, next.tenant_id, v.visited + 1, v.served + next.due::integer, next.due
      from visit v
      cross join lateral (
        select n.tenant_id,
          not exists (
            select from only pauses p where (p.queue is null or p.queue = v.queue) and p.tenant_id = n.tenant_id)
          and coalesce(${remainingShare(sql, sql`v.share`, sql`n.tenant_id`)} > 0, true)
          and exists (
            select from jobs j where j.queue = v.queue and j.tenant_id = n.tenant_id and ${due}
            order by j.priority, j.run_at offset 0) as due
        from (${nextTenant(sql, is_read)}) n offset 0
      ) next
      where v.visited < ${TENANTS_PER_SCAN} and v.served < v.room
    ), scanned as (
      select distinct on (queue) queue, room, served,
        case when visited = ${TENANTS_PER_SCAN} or served = room then tenant_id end as after
      from visit order by queue, visited desc
    ), picked as (
      select w.queue, candidate.id, candidate.overdue, candidate.is_other,
        row_number() over (partition by w.queue order by candidate.rank, candidate.run_at) as position
      from scanned w join visit v on v.queue = w.queue and v.due
      cross join lateral (
        select j.id, j.run_at, j.state = 'running' or j.wakeup_sent_at is not null as is_other,
          j.state = 'running' or j.wakeup_sent_at > coalesce(${waitEndedAt(sql)}, '-infinity') as overdue,
          row_number() over (order by j.priority, j.run_at) as rank
        from jobs j where j.queue = v.queue and j.tenant_id = v.tenant_id and ${due}
        order by j.priority, j.run_at
        -- Twice an equal share of the room, because other tenants may have fewer jobs.
        limit least((2 * w.room + w.served - 1) / w.served, ${remainingShare(sql, sql`v.share`, sql`v.tenant_id`)})
      ) candidate
    )
    select w.queue, w.after, coalesce(array_agg(p.id order by p.position) filter (where p.id is not null), '{}') as ids,
      count(*) filter (where p.overdue) as overdue, count(*) filter (where p.is_other) as others
    from scanned w left join picked p on p.queue = w.queue and p.position <= w.room
    group by w.queue, w.after`
}

/**
 * For each queue, the time in seconds since its oldest due and unclaimed job named in `names` became claimable, without
 * the tenants in test mode. Queues without such a job are omitted.
 */
export async function findOldestDue(
  sql: Sql,
  queues: readonly string[],
  names: readonly string[],
): Promise<{ queue: string; age_s: number }[]> {
  return await sql<{ queue: string; age_s: number }[]>`
    with recursive ${visitTenants(
      sql,
      queues,
      sql`
      where not exists (select from only pauses p where p.queue = q.queue and p.tenant_id is null)
        and not ${isQueueHeld(sql, sql`q.queue`)}`,
    )}
    select v.queue, greatest(extract(epoch from now() - min(oldest.since)), 0)::float8 as age_s
    from (select * from visit where ${isOfMode(sql, sql`visit.tenant_id`, true)} offset 0) v
    cross join lateral (
      select ${claimableSince(sql)} as since from jobs j
      where j.queue = v.queue and j.tenant_id = v.tenant_id and j.finished_at is null and j.run_at <= now()
        and j.name = any(${[...names]}::text[]) and ${unclaimed(sql, 0)} and not ${isHeldOrSealed(sql)}
      order by j.priority, j.run_at limit 1
    ) oldest
    where not exists (
      select from only pauses p where (p.queue is null or p.queue = v.queue) and p.tenant_id = v.tenant_id)
    group by v.queue`
}

/**
 * A part of a recursive query: `visit` has a row for each queue and each tenant with open jobs in the queue. The scan
 * steps from tenant to tenant in the index of open jobs. The first row of each queue has the lowest possible id
 * instead of a tenant. `condition`: a `where` clause that selects queues `q`.
 */
export function visitTenants(sql: Sql, queues: readonly string[], condition = sql``): Fragment {
  return sql`visit as (
      select q.queue, ${LOWEST_ID}::uuid as tenant_id from unnest(${[...queues]}::text[]) as q(queue) ${condition}
      union all
      select v.queue, next.tenant_id from visit v cross join lateral (${nextTenant(sql)}) next
    )`
}

/** Selects the first tenant after the tenant of `v` that has open jobs in the queue of `v` that match `condition`. */
function nextTenant(sql: Sql, condition = sql`true`): Fragment {
  return sql`
    select j.tenant_id from jobs j
    where j.queue = v.queue and j.finished_at is null and ${condition} and j.tenant_id > v.tenant_id
    order by j.tenant_id limit 1`
}

/** The condition of the index `jobs_without_wakeup`. */
function hasNoWakeUp(sql: Sql): Fragment {
  return sql`j.wakeup_sent_at is null`
}

/**
 * The claimed jobs whose calls may start: their lease is still held, and neither their queue nor their tenant
 * is paused.
 */
export async function findStartable(
  sql: Sql,
  claimed: { id: string; lease_token: string }[],
): Promise<Set<string>> {
  const leases = claimed.map(({ id, lease_token }) => ({ id, lease_token }))
  const rows = await sql<{ id: string }[]>`
    select j.id from jsonb_to_recordset(${sql.json(leases)}) as l(id uuid, lease_token uuid)
    cross join lateral (
      select j.id from jobs j
      where j.id = l.id and j.lease_token = l.lease_token and j.lease_until > now()
        and not exists (
          select from only pauses p
          where (p.queue is null or p.queue = j.queue) and (p.tenant_id is null or p.tenant_id = j.tenant_id))
    ) j`
  return new Set(rows.map((row) => row.id))
}

// Whether the job is unclaimed and no wake-up is expected for it.
function unclaimed(sql: Sql, grace_ms: number): Fragment {
  return sql`(
    case when j.state = 'running' then j.lease_until <= now()
      else j.wakeup_sent_at is null or j.wakeup_sent_at <= now() - ${grace_ms} * interval '1 millisecond' end)`
}

// The rest of a tenant's share; null without a share.
function remainingShare(sql: Sql, share: Fragment, tenant_id: Fragment): Fragment {
  return sql`
    (${share} ->> 'left')::integer - coalesce((${share} -> 'claimed' ->> ${tenant_id}::text)::integer, 0)`
}
