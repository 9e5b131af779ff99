// Payouts that are not covered any more: after a switch of the database, payouts that it had lost are taken up, and
// reduce the balance from which later ones were accepted.
import type { Sql } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { freeing } from '../ledger.ts'

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

/**
 * Fails payouts that have certainly not been sent and that their accounts do not cover any more, the newest first,
 * until the rest is covered. Returns how many. Run it while payouts wait.
 */
export async function failUncoveredPayouts(sql: Sql): Promise<number> {
  return await sql.begin(async (tx) => {
    const short = await tx<{ tenant_id: string; currency: string; missing_minor: number }[]>`
      select tenant_id, currency, reserved_minor - balance_minor as missing_minor from ledger_accounts
      where name = 'available' and balance_minor < reserved_minor
      order by tenant_id, currency for update`
    if (short.length === 0) return 0
    const failed = tx`select * from p`
    const new_events = tx`
      select p.*, gen_random_uuid() as event_id, ${'payout.failed' satisfies EventType} as event from p`
    const rows = await tx`
      with unsent as (
        select p.tenant_id, p.id, a.missing_minor,
          sum(p.amount_minor) over (partition by p.tenant_id, p.currency order by p.created_at desc, p.id)
            - p.amount_minor as before_minor
        from jsonb_to_recordset(${tx.json(short)}) as a(tenant_id uuid, currency text, missing_minor bigint)
        cross join lateral (
          select * from payouts p
          where p.tenant_id = a.tenant_id and p.currency = lower(a.currency) and p.open and p.status = 'pending'
            and p.call_started_at is null
        ) p
      ), p as (
        update payouts p set status = 'failed', failed_at = clock_timestamp(), updated_at = clock_timestamp(),
          cancel_requested_at = null, fail_requested_at = null, failure = ${tx.json({ ...NOT_COVERED, manual: false })}
        from unsent u
        where p.tenant_id = u.tenant_id and p.id = u.id and u.before_minor < u.missing_minor
          and p.status = 'pending' and p.call_started_at is null
        returning p.*
      ),
      event as (${insertingEvents(tx, 'payout', new_events)}),
      ${freeing(tx, failed)}
      select from p`
    return rows.length
  })
}
