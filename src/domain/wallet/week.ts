// The history of a wallet's balances: the balance at the end of each of the last days.
import type { Sql } from '#core/db.ts'
import { transfersBefore } from './transactions.ts'

/**
 * Balances in minor units by currency in lower case, oldest day first; the last value is the current balance. Days
 * are UTC. The balance of a day is the balance after its last transfer, found by a binary search over the sequence of
 * transfers.
 */
export async function listBalanceDays(
  sql: Sql,
  tenant_id: string,
  days: number,
): Promise<Map<string, number[]>> {
  const rows = await sql<{ currency: string; balances: number[] }[]>`
    select lower(a.currency) as currency,
      to_jsonb(array_agg(coalesce(t.balance_after_minor, 0) order by day.ends) || a.balance_minor) as balances
    from ledger_accounts a
    cross join lateral (
      select (date_trunc('day', now() at time zone 'UTC') - nth * interval '1 day') at time zone 'UTC' as ends
      from generate_series(0, ${days - 2}::integer) nth
    ) day
    cross join lateral (${transfersBefore(sql, sql`day.ends`)}) last
    left join lateral (
      select balance_after_minor from ledger_transfers
      where tenant_id = a.tenant_id and currency = a.currency and seq = last.seq offset 0
    ) t on true
    where a.tenant_id = ${tenant_id} and a.name = 'available' and a.last_seq > 0
    group by a.currency, a.balance_minor`
  return new Map(rows.map(({ currency, balances }) => [currency, balances]))
}
