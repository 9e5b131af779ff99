// Makes a verification again from the provider's session, after its row was lost.
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { resuming } from '../notifications/settle.ts'
import type { ObjectMarks } from '../provider-metadata.ts'
import { recoverParty } from '../recovered/parties.ts'
import { makeRowAgain, markColumns, storingRecoveredKey } from '../recovered/row.ts'
import type { VerificationSubjectType } from './verification.ts'

export type RecoveredVerification = ObjectMarks & {
  subject_type: VerificationSubjectType
  subject_id: string
  provider: string
  provider_reference: string
  /** The fingerprint in the metadata of the session. */
  subject_fingerprint: string | null
  /** When the session was created (unix seconds). */
  created_s: number
}

/**
 * Inserts the verification with its key and an event, and its party if it is missing. A trigger marks it as outdated if
 * it does not count for the party. The caller settles its status next. False: the row exists, or the party has another
 * open verification.
 */
export async function recoverVerification(sql: Sql, verification: RecoveredVerification): Promise<boolean> {
  const { tenant_id, subject_type, subject_id } = verification
  return await makeRowAgain(sql, async (tx) => {
    await recoverParty(tx, subject_type, { tenant_id, id: subject_id })
    const new_events = tx`
      select v.*, ${newId()}::uuid as event_id, ${'kyc.recovered' satisfies EventType} as event from v`
    await tx`
      with lost as (
        select * from jsonb_to_record(${tx.json(verification)}) as r(
          ${markColumns(tx)}, subject_type text, subject_id uuid, provider text, provider_reference text,
          subject_fingerprint text, created_s float8)
      ), v as (
        insert into verifications (tenant_id, id, idempotency_key, subject_type, subject_id, provider,
          provider_reference, subject_fingerprint, requested_at, recovered_at)
        select tenant_id, id, idempotency_key, subject_type, subject_id, provider, provider_reference,
          subject_fingerprint, to_timestamp(created_s), clock_timestamp()
        from lost
        returning *
      ),
      stored_keys as (${storingRecoveredKey(tx, 'kyc', tx`lost`, tx`'POST /v1/compliance/kyc'`)}),
      event as (${insertingEvents(tx, 'kyc', new_events)}),
      ${resuming(tx, tx`select provider, provider_reference as reference from v`)}
      select from v`
  })
}
