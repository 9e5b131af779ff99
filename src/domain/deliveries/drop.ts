// Removes unwanted deliveries from backlogs, in batches.
import type { Fragment, Tx } from '#core/db.ts'
import { addingStats, BUCKETS } from '../webhook-endpoints/numbers.ts'
import { backlogsOf, type DueBacklog } from './backlogs.ts'
import { hasDeliveryId } from './by-id.ts'

/** The number of deliveries removed at once, from all backlogs together. */
const DROP_BATCH_SIZE = 1_000
/** The maximum number of due deliveries scanned in a backlog that is not stale. */
const MAX_SCANNED = 1_000

/**
 * Whether the queued delivery `w` of the backlog `l` is not sent: its endpoint is deleted or disabled, or was
 * disabled after the delivery was queued. A recovery also sends to a disabled endpoint, unless the endpoint was
 * disabled after the recovery was requested.
 */
export function isUnwanted(tx: Tx): Fragment {
  return tx`
    (l.deleted or case when w.recovery_id is null then not l.enabled or w.queued_at < l.enabled_at
      else w.queued_at <= coalesce(l.disabled_at, '-infinity') end)`
}

/**
 * Removes unwanted deliveries from the backlogs, due or not, and updates the deliveries, their recoveries and
 * the endpoint statistics. Returns the number of removed deliveries. A backlog without further unwanted
 * deliveries is no longer stale; unwanted deliveries that an open attempt puts back later are found when they
 * are due.
 */
export async function dropUnwanted(tx: Tx, backlogs: DueBacklog[]): Promise<number> {
  const l = backlogsOf(tx, backlogs)
  const [row] = await tx<{ dropped: number }[]>`
    with unwanted as materialized (
      select w.*, l.dropped_as from ${l}
      cross join lateral (
        (select * from webhook_due w
        where l.stale and w.tenant_id = l.tenant_id and w.endpoint_id = l.endpoint_id and ${isUnwanted(tx)}
        limit ${DROP_BATCH_SIZE})
        union all
        (select * from (
          select * from webhook_due w
          where not l.stale and w.tenant_id = l.tenant_id and w.endpoint_id = l.endpoint_id and w.due_at <= now()
          order by w.due_at limit ${MAX_SCANNED}) w
        where ${isUnwanted(tx)})
      ) w
      limit ${DROP_BATCH_SIZE}
    ), removed as (
      delete from webhook_due w using unwanted u
      where w.tenant_id = u.tenant_id and w.endpoint_id = u.endpoint_id and w.sequence = u.sequence
        and w.delivery_id = u.delivery_id
      returning w.tenant_id, w.endpoint_id, w.delivery_id, w.recovery_id, u.dropped_as
    ), delivery as (
      update webhook_deliveries d set status = g.dropped_as, next_attempt_at = null,
        failed_at = coalesce(d.failed_at, clock_timestamp()), updated_at = clock_timestamp()
      from removed g
      where ${hasDeliveryId(tx, tx`g.tenant_id`, tx`g.delivery_id`)} and d.status <> 'delivered'
      returning d.tenant_id, d.endpoint_id, d.status
    ), stats as (${addingStats(
      tx,
      tx`(
        select tenant_id, endpoint_id, ${BUCKETS.undelivered}::smallint as bucket from delivery
        where status = 'failed') counted`,
    )}), recovery as (
      update webhook_recoveries r set dropped = r.dropped + n.dropped
      from (
        select tenant_id, recovery_id, count(*)::integer as dropped
        from removed where recovery_id is not null group by 1, 2
      ) n
      where r.tenant_id = n.tenant_id and r.id = n.recovery_id
    ), scanned as (
      update webhook_endpoints p set stale = false from ${l}
      where l.stale and p.tenant_id = l.tenant_id and p.id = l.endpoint_id and p.enabled_at = l.enabled_at
        and p.disabled_at is not distinct from l.disabled_at and (p.deleted_at is not null) = l.deleted
        and (select count(*) from unwanted) < ${DROP_BATCH_SIZE}
    )
    select count(*)::integer as dropped from removed`
  return row!.dropped
}
