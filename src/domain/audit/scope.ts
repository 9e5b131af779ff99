// What an audit looks at: every payment there is, or those that changed.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** Sources of rows, to be put after `from` under an alias of the check's own. */
export type Scope = {
  payments: Fragment
  /** The jobs and the postings of these payments and their refunds; of everything, all that there are. */
  jobs: Fragment
  ledger_transactions: Fragment
}

export type PaymentKey = { tenant_id: string; payment_id: string }

/** Every row. */
export function everything(sql: Sql | Tx): Scope {
  return { payments: sql`payments`, jobs: sql`jobs`, ledger_transactions: sql`ledger_transactions` }
}

/**
 * These payments. How many there are is not known when a statement is planned, so all that belongs to them is looked up
 * one by one (`lateral`, `offset 0`), here as in the checks: a join would be planned for a handful.
 */
export function ofPayments(sql: Sql | Tx, keys: PaymentKey[]): Scope {
  const tenants = keys.map(({ tenant_id }) => tenant_id)
  const ids = keys.map(({ payment_id }) => payment_id)
  const payments = sql`(
    select p.* from unnest(${tenants}::uuid[], ${ids}::uuid[]) as asked(tenant_id, id)
    cross join lateral (select p.* from payments p where p.tenant_id = asked.tenant_id and p.id = asked.id offset 0) p)`
  return {
    payments,
    jobs: sql`(
      select j.* from ${payments} p
      cross join lateral (select j.* from jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.id offset 0) j)`,
    ledger_transactions: sql`(
      select t.* from ${payments} p
      cross join lateral (
        select p.id as subject_id
        union all
        select r.id from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id
      ) subject
      cross join lateral (
        select t.* from ledger_transactions t
        where t.tenant_id = p.tenant_id and t.subject_id = subject.subject_id offset 0) t)`,
  }
}
