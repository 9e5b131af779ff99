// The provider call of a job. It is stored in the job's row, with an idempotency key of its own.
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'

/** A provider call as stored with its job. */
export type ProviderCall = {
  generation: number
  key: string
  request: Json
  /** The call may only be looked up, not sent: its key is too old or its effect unknown. */
  lookup_only: boolean
  /** An earlier attempt may have reached the provider: its outcome was ambiguous, or it did not end. */
  in_doubt: boolean
  /**
   * For how long every attempt has been refused before it took effect; null if the last attempt was not refused
   * or did not end.
   */
  refused_ms: number | null
  /**
   * The job was created before the lists of the providers were read after a switch of the database. The row may have
   * the object of a call that the database has lost.
   */
  waited_for_lists: boolean
  /** The job was created after changes that a switch of the database may have lost: it may repeat one of them. */
  follows_loss: boolean
  /** The last attempt found that the provider knows the key with other content: it must get no new key. */
  has_key_conflict: boolean
  /** The provider's id of the object that the call created, if it was reported before the call was settled. */
  reference: string | null
}

/** The code of the error of a job whose key its provider knows with other content. */
export const KEY_CONFLICT = 'key_conflict'

/** When and with which credentials the call of a job was sent under its current key. */
export type SendHistory = {
  /** When the job was created, in Unix time. */
  created_s: number
  /** The first and the last send, in Unix time; null if the call was not sent. */
  first_s: number | null
  last_s: number | null
  /** The time since the last send, by the database's clock. */
  last_ms: number | null
  /** Fingerprints of the credentials, or `*` for any, separated by spaces; null if not recorded. */
  credentials: string | null
  /**
   * The time since a read of the provider's complete list first showed that the call created no object. Only reads long
   * enough after the last send count. Null: there was no such read.
   */
  absent_ms: number | null
}

/**
 * When the call of a job was last sent under the retired key of this generation, in Unix time; undefined if
 * never.
 */
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

/** Whether the key of the job `j` is too old to send the call again: a provider stores keys for 24 hours. */
export function isKeyTooOld(sql: Sql | Tx): Fragment {
  return sql`j.first_sent_at < now() - interval '23 hours'`
}
