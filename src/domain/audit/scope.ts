// What an audit looks at: every row there is, or the payments that changed and all that belongs to them.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** Sources of rows, to be put after `from` under an alias of the check's own. */
export type Scope = {
  payments: Fragment
  refunds: Fragment
  jobs: Fragment
  events: Fragment
  ledger_transactions: Fragment
  ledger_entries: Fragment
}

export type PaymentKey = { tenant_id: string; payment_id: string }

/** Every row. */
export function everything(sql: Sql | Tx): Scope {
  return {
    payments: sql`payments`,
    refunds: sql`refunds`,
    jobs: sql`jobs`,
    events: sql`events`,
    ledger_transactions: sql`ledger_transactions`,
    ledger_entries: sql`ledger_entries`,
  }
}

/** The rows of these payments: look-ups all of them, however large the tables are. */
export function ofPayments(sql: Sql | Tx, keys: PaymentKey[]): Scope {
  const tenants = keys.map(({ tenant_id }) => tenant_id)
  const payments = keys.map(({ payment_id }) => payment_id)
  const asked = sql`unnest(${tenants}::uuid[], ${payments}::uuid[]) as asked(tenant_id, payment_id)`
  const refunds = sql`
    (select r.* from ${asked} join refunds r on r.tenant_id = asked.tenant_id and r.payment_id = asked.payment_id)`
  const ledger_transactions = sql`
    (select t.* from (
      select tenant_id, payment_id as subject_id from ${asked} union all select tenant_id, id from ${refunds} r
    ) subject join ledger_transactions t on t.tenant_id = subject.tenant_id and t.subject_id = subject.subject_id)`
  return {
    payments: sql`
      (select p.* from ${asked} join payments p on p.tenant_id = asked.tenant_id and p.id = asked.payment_id)`,
    refunds,
    jobs: sql`
      (select j.* from ${asked} join jobs j on j.tenant_id = asked.tenant_id and j.subject_id = asked.payment_id)`,
    events: sql`
      (select e.* from ${asked} join events e on e.tenant_id = asked.tenant_id and e.subject_id = asked.payment_id)`,
    ledger_transactions,
    ledger_entries: sql`
      (select e.* from ${ledger_transactions} t
       join ledger_entries e on e.tenant_id = t.tenant_id and e.transaction_id = t.id)`,
  }
}
