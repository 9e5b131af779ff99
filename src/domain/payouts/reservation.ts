// Reservations of payouts on their tenant's account: made by the statement that accepts them, freed by those that end them.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * The parts of a statement, from `wanted` to `reserved`, that reserve what is available. `wanted` selects `nth` (in which
 * order), `tenant_id, currency` (lower case), `amount_minor` and whatever else is of use. The part `judged` has all of it
 * again, with whether it is `reserved`, and the `available_minor` that it was judged by.
 *
 * The rows of the accounts are locked before anything else of the statement, once each and in their own order, and only
 * what is read under that lock decides. Several payouts of one account are judged one after the other: one that is too
 * large takes nothing away from the next. All of this is under the lock, so it looks nothing up among the others: each
 * account walks through an array, and what it decides is found by its place.
 */
export function reserving(sql: Sql | Tx, wanted: Fragment): Fragment {
  return sql`
    wanted as (
      select w.*, row_number() over (order by nth) as place from (${wanted}) w
    ), account as (
      -- Without an account there has never been any money.
      select c.places, c.amounts, coalesce(a.balance_minor - a.reserved_minor, 0) as available_minor
      from (
        select tenant_id, currency, array_agg(place order by place) as places,
          array_agg(amount_minor order by place) as amounts
        from wanted group by tenant_id, currency order by tenant_id, currency
      ) c
      left join lateral (
        select a.* from ledger_accounts a
        where a.tenant_id = c.tenant_id and a.currency = upper(c.currency) and a.name = 'available'
        for update
      ) a on true
    ), walk as (
      select places, amounts, 0 as step, null::bigint as place, false as reserved, available_minor,
        available_minor as left_minor
      from account
      union all
      select places, amounts, step + 1, places[step + 1], amounts[step + 1] <= left_minor, left_minor,
        left_minor - case when amounts[step + 1] <= left_minor then amounts[step + 1] else 0 end
      from walk where step < cardinality(places)
    ), judged as (
      select w.*, by_place.reserved[w.place] as reserved, by_place.available_minor[w.place] as available_minor
      from (
        select array_agg(reserved order by place) as reserved,
          array_agg(available_minor order by place) as available_minor
        from walk where place is not null
      ) by_place
      cross join wanted w
    ), taken as (
      select tenant_id, currency, sum(amount_minor)::bigint as amount_minor from judged where reserved
      group by tenant_id, currency
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
