// The provider call of a job. It is stored in the job's row, with its own idempotency key.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'

/** A provider call as it is stored with its job. */
export type ProviderCall = {
  generation: number
  key: string
  request: Json
  /** The call may only be looked up, not sent: its key is too old, or its effect is unknown. */
  lookup_only: boolean
  /** An earlier attempt may have reached the provider: its outcome was ambiguous, or it never ended. */
  in_doubt: boolean
  /**
   * For how long every attempt has been refused before it had an effect; null when the last one was not refused, or
   * never ended.
   */
  refused_ms: number | null
  /** The provider's id of the object that the call made, when it became known before the call was settled. */
  reference: string | null
}

/** When and with what the call of a job was sent under its present key. */
export type SendHistory = {
  /** When the job was asked for, in Unix time. */
  created_s: number
  /** The first and the last, in Unix time; null when there was none. */
  first_s: number | null
  last_s: number | null
  /** The time since the last one, by the database's clock. */
  last_ms: number | null
  /** Fingerprints of the credentials, separated by blanks; null: not recorded. */
  credentials: string | null
  /**
   * The time since the provider's complete list first showed no effect, long enough after the last sending; null: it has
   * not yet.
   */
  absent_ms: number | null
}

/** When the call of a job was last sent under the key of this generation, which is used up, in Unix time; undefined: never. */
export async function findLastSend(
  sql: Sql,
  { tenant_id, id }: { tenant_id: string; id: string },
  generation: number,
): Promise<number | undefined> {
  const [row] = await sql<{ last_s: number }[]>`
    select extract(epoch from last_sent_at)::float8 as last_s from job_attempts
    where tenant_id = ${tenant_id} and job_id = ${id} and generation = ${generation} and last_sent_at is not null`
  return row?.last_s
}

/** Whether the call of the job `j` may not be sent again: a provider keeps a key for 24 hours. */
export function isKeyTooOld(sql: Sql | Tx): Fragment {
  return sql`j.first_sent_at < now() - interval '23 hours'`
}
