// The invariants of refunds.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { postedFor, type AuditScope, type Checks } from './checks.ts'

/** A refund that the processor made is posted, and posted back when it failed later. */
function refunds(sql: Sql | Tx, { rowsOf }: AuditScope): Fragment {
  return sql`
    select 'what was refunded is not what was posted' as problem, r.tenant_id, 'payment' as subject,
      r.payment_id as subject_id, r.id::text as id, r.status as what, r.expected,
      (taken.posted + given.posted)::bigint as found,
      (taken.posted + given.posted - r.expected)::bigint as off_by, r.currency
    from ${rowsOf('payment')} p
    cross join lateral (
      select r.*, -r.out_minor as expected
      from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id offset 0
    ) r
    cross join lateral (${postedFor(sql, sql`r.id`, 'refund')}) taken
    cross join lateral (${postedFor(sql, sql`r.id`, 'refund_failed')}) given
    where taken.posted + given.posted <> r.expected or taken.posted not in (0, -r.amount_minor)
      or (taken.posted = 0 and given.posted <> 0) or taken.currency <> r.currency or given.currency <> r.currency`
}

export const checksOfRefunds: Checks = { refunds }
