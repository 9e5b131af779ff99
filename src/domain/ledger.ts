// The ledger: immutable transfers between accounts, the resulting balances, and the reserved amounts. Only this file
// writes accounts.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * A part of the statement that accepts a payment or top-up: opens the tenant's accounts with the first payment or
 * top-up in a currency, because a transfer needs existing accounts. `accepted` selects the accepted rows' `tenant_id,
 * currency` (upper case). `available` is what the platform owes the tenant, `processor_clearing` the contra account.
 * Each tenant has both, so that tenants never wait for each other's row locks. The `offset` forces one lookup per
 * currency.
 */
export function openingAccounts(sql: Sql | Tx, accepted: Fragment): Fragment {
  return sql`
    insert into ledger_accounts (tenant_id, currency, name)
    select missing.tenant_id, missing.currency, account.name
    from (
      select distinct p.tenant_id, p.currency from (${accepted}) p
      where not exists (
        select from ledger_accounts a
        where a.tenant_id = p.tenant_id and a.currency = p.currency and a.name = 'available' offset 0)
    ) missing
    cross join (values ('available'), ('processor_clearing')) account(name)
    order by 1, 2, 3
    on conflict do nothing`
}

/**
 * The CTEs of a statement, from `requested` to `reserved`, that reserve amounts of tenants' available balances.
 * `requested` selects `nth` (the order), `tenant_id, currency` (lower case), `amount_minor` and any other columns.
 * The CTE `decided` adds two columns to them: `reserved` (whether the amount is reserved) and `available_minor` (the
 * available amount before the decision).
 *
 * The account rows are locked first, each once and in a fixed order, and only their locked values count. Requests for
 * one account are decided in order: a request that exceeds the available amount reserves nothing, and the next one
 * may still succeed. The work under the lock is linear: one scan per account over an array, with results found by row
 * number.
 */
export function reserving(sql: Sql | Tx, requested: Fragment): Fragment {
  return sql`
    requested as (
      select w.*, row_number() over (order by nth) as row_no from (${requested}) w
    ), account as (
      -- A missing account means that the tenant never had money in this currency.
      select c.row_nos, c.amounts, coalesce(a.balance_minor - a.reserved_minor, 0) as available_minor
      from (
        select tenant_id, currency, array_agg(row_no order by row_no) as row_nos,
          array_agg(amount_minor order by row_no) as amounts
        from requested group by tenant_id, currency order by tenant_id, currency
      ) c
      left join lateral (
        select a.* from ledger_accounts a
        where a.tenant_id = c.tenant_id and a.currency = upper(c.currency) and a.name = 'available'
        for update
      ) a on true
    ), scan as (
      select row_nos, amounts, 0 as step, null::bigint as row_no, false as reserved, available_minor,
        available_minor as left_minor
      from account
      union all
      select row_nos, amounts, step + 1, row_nos[step + 1], amounts[step + 1] <= left_minor, left_minor,
        left_minor - case when amounts[step + 1] <= left_minor then amounts[step + 1] else 0 end
      from scan where step < cardinality(row_nos)
    ), decided as (
      select w.*, by_row_no.reserved[w.row_no] as reserved, by_row_no.available_minor[w.row_no] as available_minor
      from (
        select array_agg(reserved order by row_no) as reserved,
          array_agg(available_minor order by row_no) as available_minor
        from scan where row_no is not null
      ) by_row_no
      cross join requested w
    ), reserved_total as (
      select tenant_id, currency, sum(amount_minor)::bigint as amount_minor from decided where reserved
      group by tenant_id, currency
    ), reserved as (
      update ledger_accounts a set reserved_minor = a.reserved_minor + t.amount_minor
      from reserved_total t
      where a.tenant_id = t.tenant_id and a.currency = upper(t.currency) and a.name = 'available'
    )`
}

/**
 * The CTEs of a statement, from `freed` to `freeing`, that free reserved amounts. `freed` selects `tenant_id,
 * currency` (lower case) and `amount_minor` of locked rows: accounts are locked last.
 */
export function freeing(sql: Sql | Tx, freed: Fragment): Fragment {
  return sql`
    freed as (
      select tenant_id, upper(currency) as currency, sum(amount_minor)::bigint as amount_minor
      from (${freed}) f group by 1, 2
    ), locked_account as (
      select f.* from (select * from freed order by tenant_id, currency) f
      cross join lateral (
        select from ledger_accounts a
        where a.tenant_id = f.tenant_id and a.currency = f.currency and a.name = 'available'
        for update
      ) a
    ), freeing as (
      update ledger_accounts a set reserved_minor = a.reserved_minor - h.amount_minor
      from locked_account h where a.tenant_id = h.tenant_id and a.currency = h.currency and a.name = 'available'
    )`
}

/**
 * The CTEs of a statement, from `to_post` to `transfer`, that post transfers and change reserved amounts. `to_post`
 * selects `tenant_id, transfer_id, kind, subject_id, debit_account, credit_account, currency` (upper case) and
 * `amount_minor`: a debit lowers the balance of its account, a credit raises it. `to_reserve` selects `tenant_id,
 * currency` (upper case), `account, reserved_delta`: a negative delta frees. Errors roll back the statement: 23505
 * when the subject already has a transfer of that kind, 23502 when an account does not exist, 23514 when more is
 * freed than was reserved. `by_reference`: a subject may have several transfers of a kind, each with another value of
 * the column `reference`, which `to_post` then selects too.
 *
 * Account rows are locked after all other rows, in a fixed order. `movements` has one row per account, and no other
 * part may write accounts: PostgreSQL ignores a second update of a row in one statement. Under these locks `seq` has
 * no gaps and `created_at` only increases. The transfers of one statement are numbered in the order of their ids.
 */
export function postings(
  sql: Sql | Tx,
  to_post: Fragment,
  to_reserve?: Fragment,
  { by_reference = false } = {},
): Fragment {
  return sql`
    to_post as (${to_post}),
    ${to_reserve === undefined ? movementsOfTransfers(sql) : movementsWithReservations(sql, to_reserve)}, account as (
      select m.*, a.name, a.balance_minor, a.last_seq,
        greatest(clock_timestamp(), a.last_at + interval '1 microsecond') as at
      from (select * from movements order by tenant_id, currency, account) m
      left join lateral (
        select a.* from ledger_accounts a
        where a.tenant_id = m.tenant_id and a.currency = m.currency and a.name = m.account
        for update
      ) a on true
    ), balance as (
      update ledger_accounts a set
        balance_minor = a.balance_minor + m.balance_delta,
        ${to_reserve === undefined ? sql`` : sql`reserved_minor = a.reserved_minor + m.reserved_delta,`}
        last_seq = a.last_seq + m.transfers,
        last_at = case when m.transfers > 0
          then m.at + (m.transfers - 1) * interval '1 microsecond' else a.last_at end
      from account m where a.tenant_id = m.tenant_id and a.currency = m.currency and a.name = m.account
    ), leg as (
      select m.*, row_number() over of_account as nth, sum(to_available) over of_account as change
      from (
        select *,
          case 'available' when credit_account then amount_minor when debit_account then -amount_minor end
            as to_available
        from to_post
      ) m
      window of_account as (partition by tenant_id, currency, to_available is null order by transfer_id)
    ), transfer as (
      insert into ledger_transfers (tenant_id, id, kind, subject_id, reference, debit_account, credit_account,
        currency, amount_minor, seq, balance_after_minor, created_at)
      -- The names come from the locked accounts. A missing account has a null name, which the table refuses.
      select m.tenant_id, m.transfer_id, m.kind, m.subject_id, ${by_reference ? sql`m.reference` : sql`''`},
        debit.name, credit.name, m.currency, m.amount_minor,
        available.last_seq + m.nth, available.balance_minor + m.change,
        coalesce(available.at + (m.nth - 1) * interval '1 microsecond', clock_timestamp())
      from leg m
      left join account debit
        on debit.tenant_id = m.tenant_id and debit.currency = m.currency and debit.account = m.debit_account
      left join account credit
        on credit.tenant_id = m.tenant_id and credit.currency = m.currency and credit.account = m.credit_account
      left join account available on available.tenant_id = m.tenant_id and available.currency = m.currency
        and available.account = 'available' and m.to_available is not null
      ${to_reserve === undefined ? sql`` : refusingMissingAccounts(sql)}
    )`
}

/** The `to_post` of a statement that only changes reserved amounts. */
export function noTransfers(sql: Sql | Tx): Fragment {
  return sql`
    select null::uuid as tenant_id, null::uuid as transfer_id, null::text as kind, null::uuid as subject_id,
      null::text as debit_account, null::text as credit_account, null::text as currency, null::bigint as amount_minor
    where false`
}

function movementsOfTransfers(sql: Sql | Tx): Fragment {
  return sql`
    movements as (
      select m.tenant_id, m.currency, leg.account, sum(leg.delta)::bigint as balance_delta, count(*) as transfers
      from to_post m
      cross join lateral (
        values (m.debit_account, -m.amount_minor), (m.credit_account, m.amount_minor)
      ) leg(account, delta)
      group by m.tenant_id, m.currency, leg.account
    )`
}

function movementsWithReservations(sql: Sql | Tx, to_reserve: Fragment): Fragment {
  return sql`
    to_reserve as (${to_reserve}),
    movements as (
      select m.tenant_id, m.currency, m.account, sum(m.balance_delta)::bigint as balance_delta,
        sum(m.reserved_delta)::bigint as reserved_delta, sum(m.transfers) as transfers
      from (
        select m.tenant_id, m.currency, leg.account, leg.delta as balance_delta, 0::bigint as reserved_delta,
          1 as transfers
        from to_post m
        cross join lateral (
          values (m.debit_account, -m.amount_minor), (m.credit_account, m.amount_minor)
        ) leg(account, delta)
        union all
        select tenant_id, currency, account, 0, reserved_delta, 0 from to_reserve
      ) m
      group by m.tenant_id, m.currency, m.account
    )`
}

// A reservation on a missing account would be lost silently. This part inserts an invalid transfer, which the table
// refuses.
function refusingMissingAccounts(sql: Sql | Tx): Fragment {
  return sql`
    union all
    select m.tenant_id, null, null, null, '', null, null, null, null, null, null, null from account m
    where m.name is null`
}

export type Balance = { currency: string; name: string; balance_minor: number; reserved_minor: number }

/** The accounts of a tenant that have transfers, ordered by currency and name. */
export async function listBalances(sql: Sql, tenant_id: string): Promise<Balance[]> {
  return await sql<Balance[]>`
    select currency, name, balance_minor, reserved_minor from ledger_accounts
    where tenant_id = ${tenant_id} and last_seq > 0 order by currency, name`
}
