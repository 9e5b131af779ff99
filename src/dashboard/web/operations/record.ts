// Acts of operators: what they answer, with the entry of the audit that they left.
import { sluice } from '../api.ts'

/** `seq`: the number of the entry; null where the answer names none. */
export type OnRecord<T> = { result: T; seq: string | null }

/**
 * Posts an act and returns what it answers with its audit entry. These routes know no idempotency keys: it is asked once.
 * Throws `SluiceError`.
 */
export async function postOnRecord<T = undefined>(path: `/${string}`, body?: unknown): Promise<OnRecord<T>> {
  const answer = sluice.request('POST', path, { body }, { max_retries: 0 })
  const { data, response } = await answer.withResponse()
  return { result: data as T, seq: response.headers.get('x-audit-entry') }
}
