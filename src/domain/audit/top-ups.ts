// The invariants of top-ups: received and reversed amounts match the postings, and each change of status has one event.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { postedFor, type AuditScope, type Checks } from './checks.ts'
import { announcedOnce } from './events.ts'

function top_ups(sql: Sql | Tx, scope: AuditScope): Fragment {
  const posted = sql`
    select finding.problem, p.tenant_id, 'top_up' as resource, p.id as resource_id, p.id::text as id, p.status as what,
      finding.expected::bigint as expected, finding.found::bigint as found,
      (finding.found - finding.expected)::bigint as off_by, upper(p.currency) as currency
    from ${scope.rowsOf('top_up')} p
    cross join lateral (${postedFor(sql, sql`p.id`, 'top_up')}) received
    cross join lateral (${postedFor(sql, sql`p.id`, 'top_up_reversed')}) reversed
    cross join lateral (values
      ('the received amount differs from its postings', received.posted <> p.received_minor, p.received_minor,
        received.posted),
      ('the reversed amount differs from its postings', -reversed.posted <> p.reversed_minor,
        -p.reversed_minor, reversed.posted),
      ('a top-up is posted in another currency', upper(p.currency) <> any(array[received.currency, reversed.currency]),
        null, null),
      ('a top-up succeeded at the processor and is not posted',
        p.processor_status in ('succeeded', 'reversed') and p.received_minor = 0, p.amount_minor, p.received_minor),
      ('a top-up is posted and did not succeed at the processor',
        coalesce(p.processor_status, 'pending') not in ('succeeded', 'reversed') and p.received_minor > 0, 0,
          p.received_minor),
      -- The drift is opened within a minute after the money has arrived.
      ('a top-up has ended here and its money arrived, without a drift',
        p.status in ('failed', 'canceled') and p.received_minor > p.reversed_minor
        and p.updated_at < now() - interval '1 minute' and not exists (
          select from drifts d where d.tenant_id = p.tenant_id and d.subject = 'top_up' and d.subject_id = p.id
            and d.resolved_at is null offset 0), 0, p.received_minor)
    ) as finding(problem, violated, expected, found)
    where finding.violated`
  const expected = sql`
    select case when p.recovered_at is null then 'top_up.created' else 'top_up.recovered' end as type
    -- The row of a request with the key of a lost one took its content.
    union all select 'top_up.created' where p.recovered_at is not null and exists (
      select from events e where e.tenant_id = p.tenant_id and e.subject_id = p.id and e.type = 'top_up.created'
        and e.created_at >= p.created_at - interval '1 hour')
    union all select 'top_up.succeeded' where p.succeeded_at is not null
    union all select 'top_up.reversed' where p.succeeded_at is not null and p.status = 'failed'
    union all select 'top_up.' || p.status where p.succeeded_at is null and p.status in ('failed', 'canceled')`
  return unionAll(sql, [posted, announcedOnce(sql, scope, 'top_up', expected)])
}

export const checksOfTopUps: Checks = { top_ups }
