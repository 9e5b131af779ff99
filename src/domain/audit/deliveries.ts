// The invariants of deliveries: for every subscribed endpoint, every event was delivered, is due or has finally failed.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { arrivedWithin, noFigures, noResource, type AuditScope, type Checks, type Limits } from './checks.ts'

/**
 * A pending delivery is in the backlog or has an open job, and a delivery matches its event. Within a period the
 * check covers the deliveries created in it, endpoint by endpoint, because no index begins with the creation time.
 *
 * One statement moves a delivery from the backlog to a job, and one statement finishes the job and moves the delivery
 * back or makes it final. So no snapshot shows a delivery in between.
 */
function deliveries(sql: Sql | Tx, _scope: AuditScope, limits: Limits): Fragment {
  const created = arrivedWithin(sql, sql`d.created_at`, limits)
  const unbounded = limits.since === null || limits.until === null
  const all = unbounded
    ? sql`webhook_deliveries`
    : sql`(
        select d.* from (select p.tenant_id, p.id from webhook_endpoints p) p
        cross join lateral (
          select d.* from webhook_deliveries d
          where d.tenant_id = p.tenant_id and d.endpoint_id = p.id and ${created} offset 0) d)`
  return sql`
    select finding.problem, d.tenant_id, ${noResource(sql)}, d.id::text as id, d.type || ' ' || d.status as what,
      ${noFigures(sql)}
    from ${all} d
    left join lateral (
      select e.event_id as id, e.type, e.sequence from feed_entries e
      where e.tenant_id = d.tenant_id and e.event_id = d.event_id and e.created_at = d.event_created_at offset 0
    ) e on d.sample is null
    cross join lateral (values
      ('a pending delivery is neither queued nor in progress', d.status = 'pending'
        and not exists (
          select from webhook_due w
          where w.tenant_id = d.tenant_id and w.endpoint_id = d.endpoint_id and w.sequence = d.sequence
            and w.delivery_id = d.id)
        and not exists (
          select from jobs j
          where ${isOpenAttempt(sql, sql`d`)} and j.payload ->> 'delivery_id' = d.id::text)),
      ('a delivery has no event', d.sample is null and e.id is null
        and d.event_created_at >= ${retainedSince(sql)}),
      ('a delivery has another type or sequence than its event', case when d.sample is not null
        then d.sequence is not null
        else e.id is not null and (d.type <> e.type or d.sequence is distinct from e.sequence) end)
    ) as finding(problem, violated)
    where finding.violated`
}

/**
 * Each event of the feed has a delivery to every endpoint that subscribed to it and has not changed since. The
 * transaction that created or changed an endpoint may commit later than its timestamp, so the events of the
 * following minute are exempt.
 */
function subscriptions(sql: Sql | Tx, _scope: AuditScope, limits: Limits): Fragment {
  return sql`
    select 'an endpoint is missing the delivery of an event' as problem, e.tenant_id, ${noResource(sql)},
      e.event_id::text as id, e.type || ' for ' || p.id as what, ${noFigures(sql)}
    from feed_entries e
    cross join lateral (
      select p.id from webhook_endpoints p
      where p.tenant_id = e.tenant_id and p.deleted_at is null
        and p.types && array['*', split_part(e.type, '.', 1) || '.*', e.type]
        and greatest(p.created_at, p.updated_at) < e.created_at - interval '1 minute' offset 0
    ) p
    where ${arrivedWithin(sql, sql`e.created_at`, limits)}
      and not exists (
        select from webhook_deliveries d
        where d.tenant_id = e.tenant_id and d.event_id = e.event_id and d.endpoint_id = p.id
          -- Skips earlier partitions.
          and d.created_at >= e.created_at - interval '1 hour' offset 0)`
}

/**
 * Each row of a backlog is a pending delivery. An attempt that ends during a replay can make a delivery final while
 * its row is still in the backlog. The next scan removes such a row, so deliveries that changed within the last
 * minute are exempt.
 */
function delivery_backlogs(sql: Sql | Tx, { tenant_condition }: AuditScope): Fragment {
  return sql`
    select finding.problem, w.tenant_id, ${noResource(sql)}, w.delivery_id::text as id,
      'due at ' || w.due_at || coalesce(', ' || d.type || ' ' || d.status, '') as what, ${noFigures(sql)}
    from (select * from webhook_due where ${tenant_condition}) w
    left join lateral (
      select d.id, d.type, d.status, d.updated_at from webhook_deliveries d
      where d.tenant_id = w.tenant_id and d.id = w.delivery_id and d.created_at = w.delivery_created_at offset 0
    ) d on true
    cross join lateral (values
      ('a queued delivery does not exist', d.id is null
        and w.delivery_created_at >= ${retainedSince(sql)}),
      ('a queued delivery is not pending', d.status <> 'pending'
        and d.updated_at < now() - interval '1 minute')
    ) as finding(problem, violated)
    where finding.violated`
}

/** A recovery that has scanned everything and has nothing left to send is completed within a minute. */
function recoveries(sql: Sql | Tx, { tenant_condition }: AuditScope): Fragment {
  return sql`
    select 'a recovery has nothing left to send and is not completed' as problem, r.tenant_id, ${noResource(sql)},
      r.id::text as id, r.status || ' since ' || r.updated_at as what, ${noFigures(sql)}
    from (select * from webhook_recoveries where ${tenant_condition} and status <> 'completed' and after_at is null) r
    where r.updated_at < now() - interval '1 minute'
      and not exists (
        select from webhook_due w
        where w.tenant_id = r.tenant_id and w.endpoint_id = r.endpoint_id and w.recovery_id = r.id)
      and not exists (
        select from jobs j where ${isOpenAttempt(sql, sql`r`)} and j.payload ->> 'recovery_id' = r.id::text)`
}

/** Whether the job `j` is an open attempt to deliver to the endpoint of `row`. */
function isOpenAttempt(sql: Sql | Tx, row: Fragment): Fragment {
  return sql`
    j.queue = ${sendDelivery.queue} and j.tenant_id = ${row}.tenant_id and j.finished_at is null
    and j.resource_id = ${row}.endpoint_id`
}

/** The beginning of the retention period of events and their deliveries. */
function retainedSince(sql: Sql | Tx): Fragment {
  return sql`(
    select coalesce(min(coalesce(retained.from_time, '-infinity')), '-infinity') from partitions retained
    where retained.parent = 'sequenced_events' and not retained.is_default)`
}

export const checksOfDeliveries: Checks = { deliveries, subscriptions }
export const checksOfBacklogs: Checks = { delivery_backlogs, recoveries }
