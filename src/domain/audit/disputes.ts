// The invariants of disputes: withdrawn and reinstated amounts match the postings, and each event was written
// once.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { postedFor, type AuditScope, type Checks } from './checks.ts'

/** The disputes of the audited payments, as `d`. */
function disputesOf(sql: Sql | Tx, { rowsOf }: AuditScope): Fragment {
  return sql`
    ${rowsOf('payment')} p
    cross join lateral (
      select * from disputes d where d.tenant_id = p.tenant_id and d.payment_id = p.id offset 0
    ) d`
}

/** The amounts of a dispute match its postings, and its payment shows the latest dispute. */
function disputes(sql: Sql | Tx, scope: AuditScope): Fragment {
  return sql`
    select finding.problem, d.tenant_id, 'payment' as resource, d.payment_id as resource_id, d.id::text as id,
      d.status as what, finding.expected::bigint as expected, finding.found::bigint as found,
      (finding.found - finding.expected)::bigint as off_by, d.currency
    from ${disputesOf(sql, scope)}
    cross join lateral (${postedFor(sql, sql`d.id`, 'dispute_withdrawn')}) withdrawn
    cross join lateral (${postedFor(sql, sql`d.id`, 'dispute_reinstated')}) reinstated
    cross join lateral (values
      ('the withdrawn amount of a dispute differs from its postings', -withdrawn.posted <> d.amount_withdrawn_minor,
        -d.amount_withdrawn_minor, withdrawn.posted),
      ('the reinstated amount of a dispute differs from its postings', reinstated.posted <> d.amount_reinstated_minor,
        d.amount_reinstated_minor, reinstated.posted),
      ('a dispute is posted in another currency', d.currency <> any(array[withdrawn.currency, reinstated.currency]),
        null, null),
      ('the payment does not show its latest dispute', case
        when p.dispute ->> 'id' = d.id::text then p.dispute ->> 'status' <> d.status
          or (p.dispute ->> 'closed_at' is null) <> (d.closed_at is null)
        else coalesce((p.dispute ->> 'opened_at')::timestamptz < d.opened_at, true) end, null, null)
    ) as finding(problem, violated, expected, found)
    where finding.violated`
}

/** The withdrawn amount is reinstated within a day after the dispute is won. */
function won(sql: Sql | Tx, { tenant_condition }: AuditScope): Fragment {
  return sql`
    select 'a dispute is won and its amount is not reinstated' as problem, d.tenant_id, 'payment' as resource,
      d.payment_id as resource_id, d.id::text as id, d.status as what, d.amount_withdrawn_minor as expected,
      0::bigint as found, -d.amount_withdrawn_minor as off_by, d.currency
    from disputes d
    where ${tenant_condition} and d.status = 'won' and d.amount_withdrawn_minor > 0 and d.amount_reinstated_minor = 0
      and d.closed_at < now() - interval '1 day'`
}

/** Each event that a dispute lists in `announced` exists once, and no other event exists. */
function disputeEvents(sql: Sql | Tx, scope: AuditScope): Fragment {
  return sql`
    select case when compared.expected is not null then 'an event of a dispute is missing or was written twice'
        else 'a dispute has an unexpected event' end as problem,
      d.tenant_id, 'payment' as resource, d.payment_id as resource_id, d.id::text as id,
      coalesce(compared.expected, compared.type) as what,
      (compared.expected is not null)::integer::bigint as expected, coalesce(compared.times, 0) as found,
      coalesce(compared.times, 0) - (compared.expected is not null)::integer as off_by,
      null::text as currency
    from ${disputesOf(sql, scope)}
    cross join lateral (
      select found.type, found.times, required.type from (
        select e.type, count(*) as times from events e
        where e.tenant_id = d.tenant_id and e.subject_id = d.payment_id
          and (e.type = 'payment.disputed' or e.type like 'payment.dispute\\_%')
          and e.data #>> '{dispute,id}' = d.id::text
          -- Skips earlier partitions.
          and e.created_at >= d.created_at - interval '1 hour'
        group by 1
      ) found full join (select 'payment.' || event_name as type from unnest(d.announced) event_name) required
        on required.type = found.type
    ) as compared(type, times, expected)
    -- Events beyond the retention period are deleted.
    where d.created_at >= (select min(coalesce(retained.from_time, '-infinity')) from partitions retained
      where retained.parent = 'sequenced_events' and not retained.is_default)
      and (compared.expected is null or coalesce(compared.times, 0) <> 1)`
}

export const checksOfDisputes: Checks = { disputes, dispute_events: disputeEvents }
export const checksOfWonDisputes: Checks = { won_disputes: won }
