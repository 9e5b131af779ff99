// Reads which requests the system itself names as lost after the database went back in time.
import type { Sql } from '#core/db.ts'

/** The key and the resource of each request that an event names as lost. */
export async function namedAsLost(sql: Sql): Promise<{ key: string; id: string | null }[]> {
  return await sql<{ key: string; id: string | null }[]>`
    select data ->> 'idempotency_key' as key, data ->> 'resource_id' as id from events where type = 'request.lost'`
}
