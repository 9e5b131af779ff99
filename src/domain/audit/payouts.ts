// The invariants of payouts: paid and returned amounts match the postings, and each change of state has one
// event.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { postedFor, type AuditScope, type Checks } from './checks.ts'
import { announcedTimes } from './events.ts'

/** The amounts of a payout match its postings. */
function payouts(sql: Sql | Tx, { rowsOf }: AuditScope): Fragment {
  return sql`
    select finding.problem, p.tenant_id, 'payout' as resource, p.id as resource_id, p.id::text as id, p.status as what,
      finding.expected::bigint as expected, finding.found::bigint as found,
      (finding.found - finding.expected)::bigint as off_by, upper(p.currency) as currency
    from ${rowsOf('payout')} p
    cross join lateral (${postedFor(sql, sql`p.id`, 'payout_paid')}) paid
    cross join lateral (${postedFor(sql, sql`p.id`, 'payout_returned')}) returned
    cross join lateral (values
      ('the paid amount differs from its postings', -paid.posted <> p.paid_minor, -p.paid_minor, paid.posted),
      ('the returned amount differs from its postings', returned.posted <> p.returned_minor, p.returned_minor,
        returned.posted),
      ('a payout is posted in another currency', upper(p.currency) <> any(array[paid.currency, returned.currency]),
        null, null),
      ('the amount of a payout that failed at the processor is not returned',
        p.processor_status in ('failed', 'canceled') and p.returned_minor <> p.paid_minor, p.paid_minor,
        p.returned_minor),
      ('a payout is paid at the processor and not posted', p.processor_status = 'paid' and p.paid_minor = 0,
        p.amount_minor, p.paid_minor),
      ('a payout is paid here and not at the processor', p.status = 'paid'
        and (p.processor_reference is null or p.processor_status is distinct from 'paid'), null, null),
      -- The drift is opened within a minute after the payout has ended.
      ('a payout has ended here and not at the processor, without a drift',
        p.status in ('failed', 'canceled')
        and (p.processor_status = 'processing' or (p.processor_status = 'paid' and p.out_minor > 0))
        and p.updated_at < now() - interval '1 minute' and not exists (
          select from drifts d where d.tenant_id = p.tenant_id and d.subject = 'payout' and d.subject_id = p.id
            and d.resolved_at is null offset 0), 0, p.out_minor)
    ) as finding(problem, violated, expected, found)
    where finding.violated`
}

/** Each state that a payout has reached has one event, and no other event exists. */
function payoutEvents(sql: Sql | Tx, scope: AuditScope): Fragment {
  const required = sql`
    values
    ('payout.created', (p.recovered_at is null)::integer::bigint, 1::bigint),
    ('payout.recovered', (p.recovered_at is not null)::integer::bigint, (p.recovered_at is not null)::integer::bigint),
    -- A payout that is paid at once, or ends at once, skips the status processing, and so has no such event.
    ('payout.processing', (p.status = 'processing')::integer::bigint, (p.processing_at is not null)::integer::bigint),
    ('payout.paid', (p.paid_at is not null)::integer::bigint, (p.paid_at is not null)::integer::bigint),
    ('payout.fail_overtaken', (p.fail_requested_at is not null and p.paid_at is not null)::integer::bigint,
      (p.fail_requested_at is not null and p.paid_at is not null)::integer::bigint),
    ('payout.failed', (p.status = 'failed')::integer::bigint, (p.status = 'failed')::integer::bigint),
    ('payout.canceled', (p.status = 'canceled')::integer::bigint, (p.status = 'canceled')::integer::bigint)`
  return announcedTimes(sql, scope, 'payout', required)
}

export const checksOfPayouts: Checks = { payouts, payout_events: payoutEvents }
