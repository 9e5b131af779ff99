// Payouts that are not covered any more: after a switch of the database, payouts that it had lost are recovered, and
// reduce the balance from which later ones were accepted.
import type { Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { freeing } from '../ledger.ts'
import { isOfMode } from '../modes.ts'

/** The failure of such a payout. */
export const NOT_COVERED = {
  code: 'insufficient_balance',
  message: 'The balance does not cover the payout: earlier payouts were missing when it was accepted.',
}

/** Whether more is reserved in this currency (in lower case) than the tenant has. */
export async function isUncovered(sql: Sql, tenant_id: string, currency: string): Promise<boolean> {
  const found = await sql`
    select from ledger_accounts
    where tenant_id = ${tenant_id} and currency = ${currency.toUpperCase()} and name = 'available'
      and balance_minor < reserved_minor`
  return found.length > 0
}

type CurrencyAccount = { tenant_id: string; currency: string }
type ShortAccount = CurrencyAccount & { missing_minor: number }

/**
 * Fails payouts of live tenants that have certainly not been sent and that their accounts do not cover any more, the
 * newest first, until the rest is covered. Returns how many. At most `limit` payouts of one account fail in one
 * transaction. Run it while payouts wait.
 */
export async function failUncoveredPayouts(sql: Sql, limit = 500): Promise<number> {
  let total = 0
  let after: CurrencyAccount = { tenant_id: LOWEST_ID, currency: '' }
  for (;;) {
    const batch = await failNext(sql, after, limit)
    if (batch === undefined) return total
    total += batch.failed
    if (batch.failed < limit) after = batch.account
  }
}

/** Fails payouts of the next account after `after` that has too little; undefined if there is none. */
async function failNext(
  sql: Sql,
  after: CurrencyAccount,
  limit: number,
): Promise<{ account: CurrencyAccount; failed: number } | undefined> {
  return await sql.begin(async (tx) => {
    const [account] = await tx<ShortAccount[]>`
      select tenant_id, currency, reserved_minor - balance_minor as missing_minor from ledger_accounts
      where name = 'available' and balance_minor < reserved_minor
        and (tenant_id, currency) > (${after.tenant_id}, ${after.currency})
        and ${isOfMode(tx, tx`ledger_accounts.tenant_id`, true)}
      order by tenant_id, currency limit 1 for update`
    if (account === undefined) return undefined
    const { tenant_id, currency, missing_minor } = account
    const failed = tx`select * from p`
    const new_events = tx`
      select p.*, gen_random_uuid() as event_id, ${'payout.failed' satisfies EventType} as event from p`
    const rows = await tx`
      with unsent as (
        select id, sum(amount_minor) over (order by created_at desc, id) - amount_minor as before_minor
        from (
          select * from payouts
          where tenant_id = ${tenant_id} and currency = ${currency.toLowerCase()} and open and status = 'pending'
            and call_started_at is null
          order by created_at desc, id limit ${limit}
        ) newest
      ), p as (
        update payouts p set status = 'failed', failed_at = clock_timestamp(), updated_at = clock_timestamp(),
          cancel_requested_at = null, fail_requested_at = null, failure = ${tx.json({ ...NOT_COVERED, manual: false })}
        from unsent u
        where p.tenant_id = ${tenant_id} and p.id = u.id and u.before_minor < ${missing_minor}
          and p.status = 'pending' and p.call_started_at is null
        returning p.*
      ),
      event as (${insertingEvents(tx, 'payout', new_events)}),
      ${freeing(tx, failed)}
      select from p`
    return { account, failed: rows.length }
  })
}
