// Helpers for the feed: sequences and readers.
import { setTimeout as sleep } from 'node:timers/promises'
import { connectDatabase } from '#core/pool.ts'
import type { Sql, Tx } from '#core/db.ts'
import { sequenceEvents } from '#domain/sequencing.ts'
import type { Client } from './client.ts'
import { urlAs } from './users.ts'
import type { World } from './world.ts'

/** Assigns a sequence to every event that has none. `sql`: a connection with the owner of the tables. */
export async function sequenceAllEvents(sql: Sql): Promise<void> {
  for (;;) {
    await sequenceEvents(sql, 1000)
    if ((await sql`select from event_outbox limit 1`).count === 0) return
    await sleep(5)
  }
}

/** Writes the sequences of a tenant's entries into its events, which a test may change before `rewriteFeed`. */
export async function numberEvents(sql: Sql | Tx, tenant_id: string): Promise<void> {
  await sql`
    update events e set sequence = f.sequence from feed_entries f
    where f.tenant_id = e.tenant_id and f.event_id = e.id and e.tenant_id = ${tenant_id}`
}

/**
 * Makes the entries of a tenant's feed those of its events, after a test wrote, changed or deleted events with a
 * sequence.
 */
export async function rewriteFeed(sql: Sql | Tx, tenant_id: string): Promise<void> {
  await sql`delete from feed_entries where tenant_id = ${tenant_id}`
  await sql`
    insert into feed_entries (tenant_id, sequence, event_id, type, created_at)
    select tenant_id, sequence, id, type, created_at from events
    where sequenced and tenant_id = ${tenant_id} and sequence is not null`
}

/** Assigns sequences in small batches on a separate connection, until it is closed. */
export function startSequencing(world: World): { close: () => Promise<void> } {
  const sql = connectDatabase(urlAs('worker', world.config.DATABASE_URL!), {
    max: 1,
    application_name: 'test',
  })
  const closing = new AbortController()
  const done = (async () => {
    for (let most = 1; !closing.signal.aborted; most = (most * 3) % 61) {
      await sequenceEvents(sql, most)
      await sleep(1)
    }
  })()
  return {
    async close() {
      closing.abort()
      await done
      await sql.end()
    },
  }
}

/** Reads the feed from its beginning, page by page, until it has read this many events. Waits for new events. */
export async function follow(client: Client, most: number, limit: number): Promise<any[]> {
  const seen: any[] = []
  for (let url = `/v1/events?limit=${limit}`; seen.length < most;) {
    const { body, headers } = await client.get(url, { prefer: 'wait=5' })
    seen.push(...body)
    url = /^<(.+)>; rel="next"$/.exec(headers.get('link') ?? '')![1]!
  }
  return seen
}
