// Lists of a provider that cannot be read, for operators: after a switch of the database, jobs wait for them.
import { z } from 'zod'
import type { Sql, Tx } from '#core/db.ts'
import { timestamp } from '#core/time.ts'

const MAX_ERROR_LENGTH = 500

export const unreadListSchema = z.object({
  provider: z.string(),
  list: z.string().meta({ description: 'The name of the list; `events` for the list of events.' }),
  failing_since: timestamp,
  failed_at: timestamp.meta({ description: 'When the list could last not be read.' }),
  error: z.string(),
})
/** A list of a provider that cannot be read. */
export type UnreadList = z.output<typeof unreadListSchema>

/** The lists that cannot be read, in the order in which they began to fail. */
export async function findUnreadLists(sql: Sql | Tx): Promise<UnreadList[]> {
  return await sql<UnreadList[]>`
    select provider, list, failing_since, failed_at, error from unread_lists order by failing_since, provider, list`
}

/** Records that a list cannot be read. */
export async function recordUnreadList(
  sql: Sql,
  { provider, list, error }: Pick<UnreadList, 'provider' | 'list' | 'error'>,
): Promise<void> {
  await sql`
    insert into unread_lists (provider, list, error) values (${provider}, ${list}, ${error.slice(0, MAX_ERROR_LENGTH)})
    on conflict (provider, list) do update set failed_at = clock_timestamp(), error = excluded.error`
}

/** Records that a list has been read, or is not required. */
export async function clearUnreadList(sql: Sql, { provider, list }: Pick<UnreadList, 'provider' | 'list'>) {
  await sql`delete from unread_lists where provider = ${provider} and list = ${list}`
}
