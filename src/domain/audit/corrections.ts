// The check of corrections: each was confirmed by two operators and posted once.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { arrivedWithin, noResource, type AuditScope, type Limits } from './checks.ts'

/** Each carried-out proposal of a correction has one posting, and each posting has such a proposal. */
export function corrections(sql: Sql | Tx, _scope: AuditScope, limits: Limits): Fragment {
  const posted = sql`case t.credit_account when 'available' then t.amount_minor else -t.amount_minor end`
  return sql`
    select 'a correction is posted without a confirmed proposal' as problem, t.tenant_id, ${noResource(sql)},
      t.id::text as id, t.currency as what, 0::bigint as expected, ${posted} as found, ${posted} as off_by,
      t.currency
    from ledger_transfers t
    where t.kind = 'correction' and ${arrivedWithin(sql, sql`t.created_at`, limits)} and not exists (
      select from proposals p
      where p.id = t.subject_id and p.tenant_id = t.tenant_id and ${isCarriedOut(sql)} and p.currency = t.currency
        and p.amount_minor = ${posted} offset 0)
    union all
    select 'a correction was carried out and is not posted', p.tenant_id, ${noResource(sql)}, p.id::text, p.currency,
      p.amount_minor, 0, -p.amount_minor, p.currency
    from proposals p
    where ${isCarriedOut(sql)} and ${arrivedWithin(sql, sql`p.carried_out_at`, limits)} and not exists (
      select from ledger_transfers t
      where t.tenant_id = p.tenant_id and t.subject_id = p.id and t.kind = 'correction' offset 0)`
}

function isCarriedOut(sql: Sql | Tx): Fragment {
  return sql`(p.kind = 'correction' and p.carried_out_at is not null and p.refused is null)`
}
