// The cost of the feed for writers: the same statement with the product's events table and with a plain table.
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { createCustomers } from '#domain/customers/change.ts'
import { freshKey } from '#test/client.ts'
import { median } from '../../compare.ts'
import { costs, cpuTimes } from '../../cpu.ts'
import type { System } from '../../system.ts'

const BATCH_SIZE = 20
const STATEMENTS = 200
const ROUNDS = 21

/**
 * PostgreSQL's processor time per accepted customer with the feed, divided by the time without the feed. Returns the
 * median of all rounds.
 */
export async function costOfAccepting(system: System): Promise<number> {
  // The plain table of events has partitions by time, a primary key and two indexes, but no feed.
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
    const ratios: number[] = []
    const tenant_id = system.keys[0]!.tenant_id
    for (let round = 0; round <= ROUNDS; round++) {
      // The order alternates, because the second run of a round uses database pages that the first run has written.
      // The outbox is emptied, so that it stays short.
      await system.sql`truncate event_outbox`
      const sides = round % 2 === 0 ? [plain, feed] : [feed, plain]
      const [first, second] = [await run(sides[0]!, tenant_id), await run(sides[1]!, tenant_id)]
      if (round > 0) ratios.push(round % 2 === 0 ? second / first : first / second)
    }
    return median(ratios)
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
    Array.from({ length: BATCH_SIZE }, () => ({
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
  const before = cpuTimes()
  for (const batch of batches) await createCustomers(sql, batch)
  return costs(before, cpuTimes(), STATEMENTS * BATCH_SIZE)['postgres']!
}
