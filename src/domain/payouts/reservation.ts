// Reservations of payouts on their tenant's account: made by the statement that accepts them, freed by those that end them.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * The parts of a statement, from `wanted` to `reserved`, that reserve what is available. `wanted` selects `nth` (in which
 * order), `tenant_id, currency` (lower case), `amount_minor` and `payout_id`. The part `judged` has of each `payout_id`
 * whether it is `reserved`, and the `available_minor` that it was judged by.
 *
 * The rows of the accounts are locked before anything else of the statement, in their own order, and only what is read
 * under that lock decides. Several payouts of one account are judged one after the other: one that is too large takes
 * nothing away from the next.
 */
export function reserving(sql: Sql | Tx, wanted: Fragment): Fragment {
  return sql`
    wanted as (
      select w.*, row_number() over (partition by tenant_id, currency order by nth) as place from (${wanted}) w
    ), account as (
      select a.tenant_id, c.currency, a.balance_minor - a.reserved_minor as available_minor
      from (select distinct tenant_id, currency from wanted order by tenant_id, currency) c
      cross join lateral (
        select a.* from ledger_accounts a
        where a.tenant_id = c.tenant_id and a.currency = upper(c.currency) and a.name = 'available'
        for update
      ) a
    ), walk as (
      select tenant_id, currency, 0::bigint as place, null::uuid as payout_id, false as reserved, available_minor,
        available_minor as left_minor
      from account
      union all
      select w.tenant_id, w.currency, w.place, w.payout_id, w.amount_minor <= b.left_minor, b.left_minor,
        b.left_minor - case when w.amount_minor <= b.left_minor then w.amount_minor else 0 end
      from walk b
      join wanted w on w.tenant_id = b.tenant_id and w.currency = b.currency and w.place = b.place + 1
    ), judged as (
      -- Without an account there has never been any money.
      select w.payout_id, coalesce(b.reserved, false) as reserved, coalesce(b.available_minor, 0) as available_minor
      from wanted w left join walk b on b.payout_id = w.payout_id
    ), taken as (
      select w.tenant_id, w.currency, sum(w.amount_minor)::bigint as amount_minor
      from wanted w join judged j on j.payout_id = w.payout_id and j.reserved
      group by w.tenant_id, w.currency
    ), reserved as (
      update ledger_accounts a set reserved_minor = a.reserved_minor + t.amount_minor
      from taken t
      where a.tenant_id = t.tenant_id and a.currency = upper(t.currency) and a.name = 'available'
    )`
}

/**
 * The parts of a statement, from `freed` to `freeing`, that free what payouts had reserved. `freed` selects `tenant_id,
 * currency` (lower case) and `amount_minor` of payouts whose rows are locked: the accounts come last.
 */
export function freeing(sql: Sql | Tx, freed: Fragment): Fragment {
  return sql`
    freed as (
      select tenant_id, upper(currency) as currency, sum(amount_minor)::bigint as amount_minor
      from (${freed}) f group by 1, 2
    ), holder as (
      select f.* from (select * from freed order by tenant_id, currency) f
      cross join lateral (
        select from ledger_accounts a
        where a.tenant_id = f.tenant_id and a.currency = f.currency and a.name = 'available'
        for update
      ) a
    ), freeing as (
      update ledger_accounts a set reserved_minor = a.reserved_minor - h.amount_minor
      from holder h where a.tenant_id = h.tenant_id and a.currency = h.currency and a.name = 'available'
    )`
}
