// Makes a top-up again from the processor's top-up, after its row was lost.
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { openingAccounts } from '../ledger.ts'
import { resuming } from '../notifications/settle.ts'
import type { ObjectMarks } from '../provider-metadata.ts'
import { makeRowAgain, markColumns, storingRecoveredKey } from '../recovered/row.ts'

export type RecoveredTopUp = ObjectMarks & {
  amount_minor: number
  /** In lower case. */
  currency: string
  description: string | null
  processor: string
  processor_reference: string
}

/** Inserts the top-up with its key and an event. The caller settles its status next. False: the row exists. */
export async function recoverTopUp(sql: Sql, top_up: RecoveredTopUp): Promise<boolean> {
  return await makeRowAgain(sql, async (tx) => {
    const new_events = tx`
      select t.*, ${newId()}::uuid as event_id, ${'top_up.recovered' satisfies EventType} as event from t`
    await tx`
      with lost as (
        select * from jsonb_to_record(${tx.json(top_up)}) as r(
          ${markColumns(tx)}, amount_minor bigint, currency text, description text, processor text,
          processor_reference text)
      ), t as (
        insert into top_ups (tenant_id, id, idempotency_key, amount_minor, currency, description, processor,
          processor_reference, recovered_at)
        select tenant_id, id, idempotency_key, amount_minor, currency, description, processor, processor_reference,
          clock_timestamp()
        from lost
        returning *
      ),
      opened as (${openingAccounts(tx, tx`select tenant_id, upper(currency) as currency from t`)}),
      stored_keys as (${storingRecoveredKey(tx, 'top_up', tx`lost`, tx`'POST /v1/wallet/top_ups'`)}),
      event as (${insertingEvents(tx, 'top_up', new_events)}),
      ${resuming(tx, tx`select processor as provider, processor_reference as reference from t`)}
      select from t`
  })
}
