// The invariants of refunds.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { postedFor, type AuditScope, type Checks } from './checks.ts'

/** A refund that succeeded at the processor is posted. If the refund failed later, the posting is reversed. */
function refunds(sql: Sql | Tx, { rowsOf }: AuditScope): Fragment {
  return sql`
    select 'the refunded amount differs from its postings' as problem, r.tenant_id, 'payment' as resource,
      r.payment_id as resource_id, r.id::text as id, r.status as what, r.expected,
      (refunded.posted + reversed.posted)::bigint as found,
      (refunded.posted + reversed.posted - r.expected)::bigint as off_by, r.currency
    from ${rowsOf('payment')} p
    cross join lateral (
      select r.*, -r.out_minor as expected
      from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id offset 0
    ) r
    cross join lateral (${postedFor(sql, sql`r.id`, 'refund')}) refunded
    cross join lateral (${postedFor(sql, sql`r.id`, 'refund_failed')}) reversed
    where refunded.posted + reversed.posted <> r.expected or refunded.posted not in (0, -r.amount_minor)
      or (refunded.posted = 0 and reversed.posted <> 0) or refunded.currency <> r.currency
        or reversed.currency <> r.currency`
}

export const checksOfRefunds: Checks = { refunds }
