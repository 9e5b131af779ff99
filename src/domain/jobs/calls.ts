// The provider call of a job: in the job's row, under a key of its own.
import type { Fragment, Json, Sql } from '#core/db.ts'

/** A provider call as it was stored with the job. */
export type ProviderCall = {
  generation: number
  key: string
  request: Json
  /** It may be looked up, never sent: its key is too old, or its effect was given up as unknown. */
  look_only: boolean
  /** An attempt before this one may have reached the provider: it was ambiguous, or never came to an end. */
  in_doubt: boolean
  /** How long each try has been turned away before it had an effect; null when the last one was not, or came to no end. */
  refused_ms: number | null
  /** What the provider calls its effect, where somebody said so before it was settled. */
  reference: string | null
}

/** Whether the call of the job `j` may not be sent again: a provider keeps a key for 24 hours. */
export function keyIsTooOld(sql: Sql): Fragment {
  return sql`j.first_sent_at < now() - interval '23 hours'`
}
