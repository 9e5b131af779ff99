// Counts deliveries that are due and whose attempt has not begun, and finds the oldest one.
import type { Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { isOfMode } from '../modes.ts'
import { mayDeliver, waitEndedAt } from '../switches/holds.ts'

/** Deliveries that have been due for longer than this count as late. */
const LATE_S = 60

/** `late`: at most the limit. `oldest_due_s`: for how many seconds the oldest delivery has been due; 0 without any. */
export type DueDeliveries = { late: number; oldest_due_s: number }

/**
 * Counts up to `limit` late deliveries of all live tenants, none while no delivery may be claimed. The query steps from
 * backlog to backlog in its index.
 */
export async function findDueDeliveries(sql: Sql, limit: number): Promise<DueDeliveries> {
  const [row] = await sql<DueDeliveries[]>`
    with recursive wait as (
      select coalesce(${waitEndedAt(sql)}, '-infinity') as ended_at where ${mayDeliver(sql)}
    ), visit as (
      select ${LOWEST_ID}::uuid as tenant_id, ${LOWEST_ID}::uuid as endpoint_id
      union all
      select next.tenant_id, next.endpoint_id from visit v cross join lateral (
        select w.tenant_id, w.endpoint_id from webhook_due w
        where (w.tenant_id, w.endpoint_id) > (v.tenant_id, v.endpoint_id)
        order by w.tenant_id, w.endpoint_id limit 1
      ) next
    ), backlog as (
      select * from visit where ${isOfMode(sql, sql`visit.tenant_id`, true)}
    ), late as (
      select from wait cross join backlog b
      join webhook_due w on w.tenant_id = b.tenant_id and w.endpoint_id = b.endpoint_id
        and w.due_at < now() - ${LATE_S} * interval '1 second'
      where wait.ended_at < now() - ${LATE_S} * interval '1 second'
      limit ${limit}
    ), oldest as (
      select greatest(first.due_at, wait.ended_at) as since from wait cross join backlog b cross join lateral (
        select w.due_at from webhook_due w
        where w.tenant_id = b.tenant_id and w.endpoint_id = b.endpoint_id and w.due_at <= now()
        order by w.due_at limit 1
      ) first
    )
    select (select count(*) from late) as late,
      coalesce((select extract(epoch from now() - min(since)) from oldest), 0)::float8 as oldest_due_s`
  return row!
}
