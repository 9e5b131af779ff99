// Recoveries: what failed within a time goes back into the line of its endpoint, in steps.
import type { Sql } from '#core/db.ts'

/** Deliveries that one step puts back. */
const AT_ONCE = 500

/**
 * Makes the next step of the recovery that waited longest: finds deliveries that failed, were skipped, or wait after a
 * failure, and begins their schedules anew. Answers whether there was one. Its row is written last, as an attempt that is
 * settled does: whoever makes the same step at the same moment does no harm, and only one of them is counted.
 */
export async function continueRecovery(sql: Sql): Promise<boolean> {
  const rows = await sql`
    with recovery as materialized (
      select * from webhook_recoveries where after_at is not null order by updated_at limit 1
    ), found as materialized (
      select d.* from recovery r cross join lateral (
        select d.tenant_id, d.endpoint_id, d.id, d.created_at, d.sequence from webhook_deliveries d
        where d.tenant_id = r.tenant_id and d.endpoint_id = r.endpoint_id and d.failed_at is not null
          and d.created_at >= r.since and d.created_at < r.until and d.created_at > r.after_at
          and d.status <> 'delivered' and d.sequence is not null
        order by d.created_at fetch first ${AT_ONCE} rows with ties
      ) d
    ), delivery as (
      update webhook_deliveries d set status = 'pending', step = 0, next_attempt_at = now(),
        updated_at = clock_timestamp()
      from found f
      where d.tenant_id = f.tenant_id and d.id = f.id and d.created_at = f.created_at and d.status <> 'delivered'
      returning d.tenant_id, d.endpoint_id, d.id, d.created_at, d.sequence
    ), due as (
      insert into webhook_due as w (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at,
        queued_at, recovery_id)
      select d.tenant_id, d.endpoint_id, d.sequence, d.id, d.created_at, now(), clock_timestamp(), r.id
      from delivery d cross join recovery r
      on conflict (tenant_id, endpoint_id, sequence, delivery_id)
        do update set due_at = excluded.due_at, queued_at = excluded.queued_at, recovery_id = excluded.recovery_id
    ), step as (
      select count(*)::integer as found, max(f.created_at) as after_at from found f
    ), put_back as (
      select count(*)::integer as times from delivery
    )
    update webhook_recoveries r set found = r.found + put_back.times,
      after_at = case when step.found >= ${AT_ONCE} then step.after_at end,
      status = case when step.found < ${AT_ONCE} and r.sent >= r.found + put_back.times
        then 'completed' else 'running' end,
      updated_at = clock_timestamp()
    from recovery, step, put_back
    where r.tenant_id = recovery.tenant_id and r.id = recovery.id and r.after_at = recovery.after_at
    returning r.id`
  return rows.length > 0
}
