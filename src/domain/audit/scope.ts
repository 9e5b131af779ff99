// What an audit looks at: every payment there is, or those that changed.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** Sources of rows, to be put after `from` under an alias of the check's own. */
export type Scope = {
  payments: Fragment
  /** The jobs and the transfers of these payments and their refunds; of everything, all that there are. */
  jobs: Fragment
  ledger_transfers: Fragment
  /** Where payments and refunds that are under way are among. */
  open_payments: Fragment
  pending_refunds: Fragment
  /** Whose ledger accounts and transfers: a condition on `tenant_id`. */
  whose: Fragment
}

export type PaymentKey = { tenant_id: string; payment_id: string }

/** Every row. */
export function everything(sql: Sql | Tx): Scope {
  return {
    payments: sql`payments`,
    jobs: sql`all_jobs`,
    ledger_transfers: sql`ledger_transfers`,
    open_payments: sql`payments`,
    pending_refunds: sql`refunds`,
    whose: sql`true`,
  }
}

/** Everything, but of the accounts only those of a tenant. */
export function accountsOf(sql: Sql | Tx, tenant_id: string): Scope {
  return { ...everything(sql), whose: sql`tenant_id = ${tenant_id}` }
}

/** Everything, but of what is under way only a part: `within` are conditions on a row `p`, none of them: no row. */
export function underWay(
  sql: Sql | Tx,
  { payments, refunds }: { payments?: Fragment; refunds?: Fragment },
): Scope {
  return {
    ...everything(sql),
    open_payments: sql`(select p.* from payments p where p.open and ${payments ?? sql`false`} offset 0)`,
    pending_refunds: sql`(select p.* from refunds p where p.status = 'pending' and ${refunds ?? sql`false`} offset 0)`,
  }
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
    ...everything(sql),
    payments,
    jobs: sql`(
      select j.* from ${payments} p
      cross join lateral (select j.* from all_jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.id offset 0) j)`,
    ledger_transfers: sql`(
      select t.* from ${payments} p
      cross join lateral (
        select p.id as subject_id
        union all
        select r.id from refunds r where r.tenant_id = p.tenant_id and r.payment_id = p.id
      ) subject
      cross join lateral (
        select t.* from ledger_transfers t
        where t.tenant_id = p.tenant_id and t.subject_id = subject.subject_id offset 0) t)`,
  }
}
