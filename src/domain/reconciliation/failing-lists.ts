// Lists of a provider that cannot be read, for operators: after a switch of the database, jobs wait for them.
import { z } from 'zod'
import type { Sql, Tx } from '#core/db.ts'
import { timestamp } from '#core/time.ts'

const MAX_ERROR_LENGTH = 500

export const failingListSchema = z.object({
  provider: z.string(),
  list: z.string().meta({ description: 'The name of the list; `events` for the list of events.' }),
  failing_since: timestamp,
  failed_at: timestamp.meta({ description: 'When the list could last not be read.' }),
  error: z.string(),
})
/** A list of a provider that cannot be read. */
export type FailingList = z.output<typeof failingListSchema>

/** The lists that cannot be read, in the order in which they began to fail. */
export async function findFailingLists(sql: Sql | Tx): Promise<FailingList[]> {
  return await sql<FailingList[]>`
    select provider, list, failing_since, failed_at, error from failing_lists order by failing_since, provider, list`
}

/** Records that a list cannot be read. */
export async function recordFailingList(
  sql: Sql,
  { provider, list, error }: Pick<FailingList, 'provider' | 'list' | 'error'>,
): Promise<void> {
  await sql`
    insert into failing_lists (provider, list, error) values (${provider}, ${list}, ${error.slice(0, MAX_ERROR_LENGTH)})
    on conflict (provider, list) do update set failed_at = clock_timestamp(), error = excluded.error`
}

/** Records that a list has been read, or is not required. */
export async function clearFailingList(sql: Sql, { provider, list }: Pick<FailingList, 'provider' | 'list'>) {
  await sql`delete from failing_lists where provider = ${provider} and list = ${list}`
}
