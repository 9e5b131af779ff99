// Makes a payment again from the processor's payment, after its row was lost.
import type { Json, Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { openingAccounts } from '../ledger.ts'
import { resuming } from '../notifications/settle.ts'
import type { ObjectMarks } from '../provider-metadata.ts'
import { recoverParty } from '../recovered/parties.ts'
import { makeRowAgain, markColumns, storingRecoveredKey } from '../recovered/row.ts'

export type RecoveredPayment = ObjectMarks & {
  /** `requires_action` if the buyer may still act. In all other cases the caller settles the status next. */
  status: 'pending' | 'requires_action'
  amount_minor: number
  currency: string
  customer_id: string | null
  merchant_id: string | null
  description: string | null
  /** Sealed. */
  client_secret: string | null
  failure: Json
  authorized_at: string | null
  processor: string
  processor_reference: string
}

/**
 * Inserts the payment with its key and an event, and its customer and merchant if they are missing. False: the row
 * exists.
 */
export async function recoverPayment(sql: Sql, payment: RecoveredPayment): Promise<boolean> {
  const { tenant_id, customer_id, merchant_id } = payment
  return await makeRowAgain(sql, async (tx) => {
    if (customer_id !== null) await recoverParty(tx, 'customer', { tenant_id, id: customer_id })
    if (merchant_id !== null) await recoverParty(tx, 'merchant', { tenant_id, id: merchant_id })
    const new_events = tx`
      select p.*, ${newId()}::uuid as event_id, ${'payment.recovered' satisfies EventType} as event from p`
    await tx`
      with lost as (
        select * from jsonb_to_record(${tx.json(payment)}) as r(
          ${markColumns(tx)}, status text, amount_minor bigint, currency text, customer_id uuid, merchant_id uuid,
          description text, client_secret text, failure jsonb, authorized_at timestamptz, processor text,
          processor_reference text)
      ), p as (
        insert into payments (tenant_id, id, idempotency_key, status, amount_minor, currency, method, customer_id,
          merchant_id, description, client_secret, failure, authorized_at, processor, processor_reference, recovered_at)
        select tenant_id, id, idempotency_key, status, amount_minor, currency, 'card', customer_id, merchant_id,
          description, client_secret, failure, authorized_at, processor, processor_reference, clock_timestamp()
        from lost
        returning *
      ),
      opened as (${openingAccounts(tx, tx`select tenant_id, currency from p`)}),
      stored_keys as (${storingRecoveredKey(tx, 'payment', tx`lost`, tx`'POST /v1/payments'`)}),
      event as (${insertingEvents(tx, 'payment', new_events)}),
      ${resuming(tx, tx`select processor as provider, processor_reference as reference from p`)}
      select from p`
  })
}
