// The invariants of payments, and of the events of payments and their refunds.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { postedFor, type AuditScope, type Checks } from './checks.ts'

/**
 * The captured amount is at most the authorized amount, and the refunded amount at most the captured amount; the
 * totals match the refunds and the ledger; the merchant and the dispute exist.
 */
function payments(sql: Sql | Tx, { rowsOf }: AuditScope): Fragment {
  return sql`
    select finding.problem, p.tenant_id, 'payment' as resource, p.id as resource_id, p.id::text as id, p.status as what,
      finding.expected::bigint as expected, finding.found::bigint as found,
      (finding.found - finding.expected)::bigint as off_by, p.currency
    from ${rowsOf('payment')} p
    cross join lateral (
      select coalesce(sum(r.out_minor), 0) as refunded,
        coalesce(sum(r.amount_minor) filter (where r.status <> 'failed' or r.out_minor > 0), 0) as reserved
      from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id
    ) r
    cross join lateral (${postedFor(sql, sql`p.id`, 'capture')}) c
    cross join lateral (values
      ('more was captured than authorized', amount_captured_minor > amount_minor, amount_minor, amount_captured_minor),
      ('more was refunded than captured', amount_refund_reserved_minor > amount_captured_minor, amount_captured_minor,
        amount_refund_reserved_minor),
      ('the refunded amount is not the sum of the refunds', amount_refunded_minor <> r.refunded, r.refunded,
        amount_refunded_minor),
      ('the reserved amount is not the sum of the refunds', amount_refund_reserved_minor <> r.reserved, r.reserved,
        amount_refund_reserved_minor),
      ('the captured amount differs from its postings', amount_captured_minor <> c.posted, amount_captured_minor,
        c.posted),
      ('a capture is posted in another currency', c.currency <> p.currency, null, null),
      ('a payment shows a missing dispute', p.dispute is not null and not exists (
        select from disputes d where d.tenant_id = p.tenant_id and d.payment_id = p.id
          and d.id::text = p.dispute ->> 'id' offset 0), null, null)
    ) as finding(problem, violated, expected, found)
    where finding.violated`
}

/** Each change of state has exactly one event. */
function events(sql: Sql | Tx, { rowsOf }: AuditScope): Fragment {
  return sql`
    select case when e.type is not null then 'an event is missing or was written twice'
        when t.type like 'refund.%' then 'an event belongs to a missing refund'
        else 'an event reports a change that did not happen' end as problem,
      p.tenant_id, 'payment' as resource, p.id as resource_id, coalesce(e.id, t.id) as id,
      coalesce(e.type, t.type) as what,
      (e.type is not null)::integer::bigint as expected, coalesce(t.times, 0) as found,
      coalesce(t.times, 0) - (e.type is not null)::integer as off_by, null::text as currency
    from ${rowsOf('payment')} p
    cross join lateral (
      select * from (
        select e.type, case when e.type like 'refund.%' then e.data ->> 'id' else p.id::text end as id,
          count(*) as times
        from events e where e.tenant_id = p.tenant_id and e.subject_id = p.id
          -- Skips earlier partitions.
          and e.created_at >= p.created_at - interval '1 hour'
        group by 1, 2
      ) t full join (
        select case when p.recovered_at is null then 'payment.created' else 'payment.recovered' end as type,
          p.id::text as id
        union all
        select 'payment.' || p.status, p.id::text where p.status in ('captured', 'canceled', 'failed')
        union all
        select expected.type, r.id::text from refunds r cross join lateral (
          select case when r.recovered_at is null then 'refund.created' else 'refund.recovered' end as type
          union all select 'refund.' || r.status where r.status <> 'pending') expected
        where r.tenant_id = p.tenant_id and r.payment_id = p.id
      ) e on e.type = t.type and e.id = t.id
    ) as compared(t_type, t_id, times, e_type, e_id)
    cross join lateral (select t_type as type, t_id as id, times) t
    cross join lateral (select e_type as type, e_id as id) e
    -- Events beyond the retention period are deleted.
    where p.created_at >= (select min(coalesce(retained.from_time, '-infinity')) from partitions retained
      where retained.parent = 'sequenced_events' and not retained.is_default)
      and case when e.type is not null then coalesce(t.times, 0) <> 1
      else t.type in ('payment.recovered', 'payment.captured', 'payment.canceled', 'payment.failed')
        or (t.type like 'refund.%' and not exists (
        select from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id and r.id::text = t.id)) end`
}

export const checksOfPayments: Checks = { payments, events }
