// What the feed costs the step that writes an event: the same statement on the events as they are, and on a plain table of events.
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { createCustomers } from '#domain/customers/change.ts'
import { freshKey } from '#test/client.ts'
import { median } from '../../compare.ts'
import type { System } from '../../system.ts'

const AT_ONCE = 20
const STATEMENTS = 400
const ROUNDS = 9

/** The time of one accepted customer in microseconds, with the feed and without it: each the median of the rounds. */
export async function costOfAccepting(system: System): Promise<{ feed_us: number; plain_us: number }> {
  // As events were stored before there was a feed: in partitions by week, each with both indexes.
  await system.sql.unsafe(`
    create schema plain;
    create table plain.events (like events including defaults) partition by range (created_at);
    alter table plain.events add primary key (tenant_id, id, created_at);
    create index on plain.events (tenant_id, subject_id, created_at, id);
    create index on plain.events using brin (created_at);
    create table plain.events_now partition of plain.events default;`)
  const feed = connectTo(system, 'public')
  const plain = connectTo(system, 'plain,public')
  try {
    const times = { feed: [] as number[], plain: [] as number[] }
    const tenant_id = system.keys[0]!.tenant_id
    for (let round = 0; round <= ROUNDS; round++) {
      const pair = { plain: await run(plain, tenant_id), feed: await run(feed, tenant_id) }
      if (round === 0) continue
      times.plain.push(pair.plain)
      times.feed.push(pair.feed)
    }
    return { feed_us: median(times.feed), plain_us: median(times.plain) }
  } finally {
    await Promise.all([feed.end(), plain.end()])
    await system.sql.unsafe('drop schema plain cascade')
  }
}

function connectTo({ database_url }: System, search_path: string): Sql {
  const url = new URL(database_url)
  url.searchParams.set('search_path', search_path)
  return connectDatabase(url.href, { max: 1, application_name: 'bench' })
}

async function run(sql: Sql, tenant_id: string): Promise<number> {
  const batches = Array.from({ length: STATEMENTS }, () =>
    Array.from({ length: AT_ONCE }, () => ({
      tenant_id,
      customer_id: newId(),
      event_id: newId(),
      idempotency_key: freshKey(),
      route: 'POST /v1/customers',
      fingerprint: 'bench',
      request_id: null,
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      phone: null,
      external_id: null,
      metadata: { plan: 'pro', seats: 3 },
    })),
  )
  const began = performance.now()
  for (const batch of batches) await createCustomers(sql, batch)
  return ((performance.now() - began) * 1000) / (STATEMENTS * AT_ONCE)
}
