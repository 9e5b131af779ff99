// The ledger: double entry, immutable, balanced by the database itself.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * Posts transactions as a part of a step: opens the parts `posting` and `entries`. `moved` selects `tenant_id,
 * transaction_id, kind, subject_id, currency (upper case), to_available` (in the smallest unit; negative takes from the
 * tenant). What a tenant is owed grows on `available` as it shrinks on the platform's `processor_clearing`; both are
 * kept per tenant, so that no two tenants wait for one row. Balances follow in the database (`post_entries`).
 */
export function postings(sql: Sql | Tx, moved: Fragment): Fragment {
  return sql`
    moved as (${moved}),
    posting as (
      insert into ledger_transactions (tenant_id, id, kind, subject_id)
      select tenant_id, transaction_id, kind, subject_id from moved
    ), entries as (
      insert into ledger_entries (tenant_id, transaction_id, account, currency, amount_minor)
      select tenant_id, transaction_id, account, currency, to_available * sign
      from moved cross join (values ('available', 1), ('processor_clearing', -1)) as side(account, sign)
    )`
}

export type Balance = { currency: string; name: string; balance_minor: number; reserved_minor: number }

/** The accounts of a tenant, by currency and name. */
export async function listBalances(sql: Sql, tenant_id: string): Promise<Balance[]> {
  return await sql<Balance[]>`
    select currency, name, balance_minor, reserved_minor from ledger_accounts where tenant_id = ${tenant_id} order by currency, name`
}
