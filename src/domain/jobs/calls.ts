// The provider call of a job. It is stored in the job's row, with its own idempotency key.
import type { Fragment, Json, Sql } from '#core/db.ts'

/** A provider call as it is stored with its job. */
export type ProviderCall = {
  generation: number
  key: string
  request: Json
  /** The call may only be looked up, not sent: its key is too old, or its effect is unknown. */
  look_only: boolean
  /** An earlier attempt may have reached the provider: its outcome was ambiguous, or it never ended. */
  in_doubt: boolean
  /** Since it was first sent under this key, if it may have been: a day later it is certainly not sent any more. */
  first_sent_ms: number | null
  /**
   * For how long every attempt has been refused before it had an effect; null when the last one was not refused, or
   * never ended.
   */
  refused_ms: number | null
  /** The provider's id of the object that the call made, when it became known before the call was settled. */
  reference: string | null
}

/** Whether the call of the job `j` may not be sent again: a provider keeps a key for 24 hours. */
export function keyIsTooOld(sql: Sql): Fragment {
  return sql`j.first_sent_at < now() - interval '23 hours'`
}
