// Makes a payout again from the processor's payout, after its row was lost.
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { noTransfers, openingAccounts, postings } from '../ledger.ts'
import { resuming } from '../notifications/settle.ts'
import type { ObjectMarks } from '../provider-metadata.ts'
import { recoverParty } from '../recovered/parties.ts'
import { makeRowAgain, markColumns, storingRecoveredKey } from '../recovered/row.ts'

export type RecoveredPayout = ObjectMarks & {
  amount_minor: number
  /** In lower case. */
  currency: string
  recipient_id: string
  /** The token to which the processor pays. */
  destination: string | null
  description: string | null
  processor: string
  processor_reference: string
}

/**
 * Inserts the payout with its key and an event, and its recipient if it is missing. Its amount is reserved, even if
 * the available balance becomes negative: the processor has the payout. The caller settles its status next. False: the
 * row exists.
 */
export async function recoverPayout(sql: Sql, payout: RecoveredPayout): Promise<boolean> {
  const { tenant_id, recipient_id, destination, currency } = payout
  return await makeRowAgain(sql, async (tx) => {
    await recoverParty(tx, 'recipient', { tenant_id, id: recipient_id }, { destination, currency })
    const account = tx`select ${tenant_id}::uuid as tenant_id, upper(${currency}::text) as currency`
    await tx`${openingAccounts(tx, account)}`
    const new_events = tx`
      select p.*, ${newId()}::uuid as event_id, ${'payout.recovered' satisfies EventType} as event from p`
    const reserved = tx`
      select tenant_id, upper(currency) as currency, 'available' as account, amount_minor as reserved_delta from p`
    await tx`
      with lost as (
        select * from jsonb_to_record(${tx.json(payout)}) as r(
          ${markColumns(tx)}, amount_minor bigint, currency text, recipient_id uuid, description text, processor text,
          processor_reference text)
      ), p as (
        insert into payouts (tenant_id, id, idempotency_key, amount_minor, currency, recipient_id, description,
          processor, processor_reference, call_started_at, recovered_at)
        select tenant_id, id, idempotency_key, amount_minor, currency, recipient_id, description, processor,
          processor_reference, clock_timestamp(), clock_timestamp()
        from lost
        returning *
      ),
      stored_keys as (${storingRecoveredKey(tx, 'payout', tx`lost`, tx`'POST /v1/payouts'`)}),
      event as (${insertingEvents(tx, 'payout', new_events)}),
      ${postings(tx, noTransfers(tx), reserved)},
      ${resuming(tx, tx`select processor as provider, processor_reference as reference from p`)}
      select from p`
  })
}
