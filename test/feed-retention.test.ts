// Retention of the feed: the audit finds missing events, personal data is erased with and without a sequence, and old
// rows are deleted.
import { afterAll, describe, expect, onTestFinished } from 'vitest'
import { newId } from '#core/ids.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { eraseNextEvents } from '#domain/customers/change.ts'
import { listFeed, type FeedQuery } from '#domain/feed.ts'
import {
  purgeDeletedEndpoints,
  deleteOldRecoveries,
  deleteOldStats,
} from '#domain/webhook-endpoints/retention.ts'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { freshKey, type Client } from '#test/client.ts'
import { numberEvents, rewriteFeed, sequenceAllEvents, startSequencing } from '#test/feed.ts'
import { postgresUrl } from '#test/suite.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

/** A connection with the rights of a worker. */
let worker: Sql
let shop: Client & { tenant_id: string }
let customer_id: string
const test = testIn({ parts: ['api'] })
test.beforeAll(async ({ world }) => {
  worker = connectDatabase(urlAs('worker', world.config.DATABASE_URL!), { max: 4, application_name: 'test' })
})
afterAll(async () => {
  await worker?.end()
})
test.beforeEach(async ({ world }) => {
  shop = await world.clientOf()
  customer_id = (await shop.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })).body.id
})

/** Inserts events for this number of changes of the customer. */
async function insertChanges(world: World, times: number): Promise<void> {
  await world.sql`
    insert into events (tenant_id, type, subject_id, data)
    select ${shop.tenant_id}, 'customer.updated', ${customer_id},
      jsonb_build_object('id', ${customer_id}::text, 'name', 'Ada', 'metadata', jsonb_build_object('n', n))
    from generate_series(1, ${times}) n`
}

const sequences = async (world: World) =>
  (
    await world.sql<{ sequence: number }[]>`
      select sequence from feed_entries where tenant_id = ${shop.tenant_id} order by sequence`
  ).map(({ sequence }) => sequence)

describe('the audit', () => {
  /** Problems of the shop's feed, as found by the full audit and by the audit of the last hour. */
  async function findProblems(world: World): Promise<object[][]> {
    const hour_ago = new Date(Date.now() - 3600_000).toISOString()
    const reports = [await auditEverything(world.sql), await auditChanges(world.sql, hour_ago, [])]
    return reports.map(({ problems }) =>
      problems.filter(({ check, tenant_id }) => check === 'feed' && tenant_id === shop.tenant_id),
    )
  }

  test.beforeEach(async ({ world }) => {
    await insertChanges(world, 9)
    await sequenceAllEvents(world.sql)
    await numberEvents(world.sql, shop.tenant_id)
  })

  test('finds no problem in a complete feed', async ({ world }) => {
    expect(await findProblems(world)).toEqual([[], []])
  })

  test.for([
    ['an event in the middle', 5, { problem: 'a sequence is missing', expected: 5, found: 4, off_by: -1 }],
    ['the first event', 1, { problem: 'a sequence is missing', expected: 1, found: 0, off_by: -1 }],
    [
      'the last event',
      10,
      {
        problem: 'the last sequence is not that of the last event',
        expected: 10,
        found: 9,
        off_by: -1,
      },
    ],
  ] as const)('finds that %s is missing', async ([_name, sequence, problem], { world }) => {
    await world.sql`delete from events where tenant_id = ${shop.tenant_id} and sequence = ${sequence}`
    await rewriteFeed(world.sql, shop.tenant_id)
    const expected = [expect.objectContaining(problem)]
    expect(await findProblems(world)).toEqual([expected, expected])
  })

  test('finds two events with the same sequence', async ({ world }) => {
    await world.sql`update events set sequence = 4 where tenant_id = ${shop.tenant_id} and sequence = 5`
    await rewriteFeed(world.sql, shop.tenant_id)
    const [all, recent] = await findProblems(world)
    expect(all).toEqual(recent)
    expect(all).toContainEqual(
      expect.objectContaining({ problem: 'two events have the same sequence', what: 'sequence 4' }),
    )
  })

  test.for([
    ['an entry without its event', 'events', 'id', 'an entry of the feed has no event'],
    [
      'an event without its entry',
      'feed_entries',
      'event_id',
      'an event is neither in the feed nor in the outbox',
    ],
  ] as const)('finds %s', async ([_name, table, id, problem], { world }) => {
    const { sql } = world
    const [entry] = await sql<{ event_id: string }[]>`
      select event_id from feed_entries where tenant_id = ${shop.tenant_id} and sequence = 5`
    await sql`delete from ${sql(table)} where tenant_id = ${shop.tenant_id} and ${sql(id)} = ${entry!.event_id}`
    for (const problems of await findProblems(world))
      expect(problems).toContainEqual(expect.objectContaining({ problem, id: entry!.event_id }))
  })

  test('finds restarted sequences, even if the audit of changes does not read the older events', async ({
    world,
  }) => {
    await world.sql`
      update events set created_at = created_at - interval '1 day' where tenant_id = ${shop.tenant_id}`
    await rewriteFeed(world.sql, shop.tenant_id)
    await world.sql`update event_sequences set last_sequence = 3 where tenant_id = ${shop.tenant_id}`
    await insertChanges(world, 2)
    await sequenceAllEvents(world.sql)
    for (const problems of await findProblems(world))
      expect(problems).toContainEqual(
        expect.objectContaining({ problem: 'two events have the same sequence', what: 'sequence 4' }),
      )
  })

  test('reports no gap for events that wait for their sequence', async ({ world }) => {
    const lock = await world.sql.reserve()
    onTestFinished(() => lock.release())
    await lock`begin`
    await lock`select from event_sequences for update`
    await insertChanges(world, 3)
    expect(await findProblems(world)).toEqual([[], []])
    await lock`rollback`
  })
})

describe('a deleted customer', () => {
  const countPersonal = async (world: World) =>
    (
      await world.sql`
        select from events where tenant_id = ${shop.tenant_id} and data ?| array['name', 'metadata']
          and type <> 'customer.deleted'`
    ).count

  test('is erased from events with a sequence and from events without a sequence', async ({ world }) => {
    const lock = await world.sql.reserve()
    onTestFinished(() => lock.release())
    await insertChanges(world, 20)
    await sequenceAllEvents(world.sql)
    await lock`begin`
    await lock`select from event_sequences for update`
    await insertChanges(world, 20)
    await shop.delete(`/v1/customers/${customer_id}`)
    expect(await countPersonal(world)).toBe(41)
    while (await eraseNextEvents(worker, 7));
    expect(await countPersonal(world)).toBe(0)
    await lock`rollback`
    await sequenceAllEvents(world.sql)
    expect(await sequences(world)).toEqual(Array.from({ length: 42 }, (_, n) => n + 1))
  })

  test('is erased from an event that gets its sequence at the same time', async ({ world }) => {
    await insertChanges(world, 10)
    await shop.delete(`/v1/customers/${customer_id}`)
    const sequencer = await world.sql.reserve()
    onTestFinished(() => sequencer.release())
    await sequencer`begin`
    await sequencer`select from sequence_events(100)`
    expect(await eraseNextEvents(worker, 100)).toBe(true)
    await sequencer`commit`
    while (await eraseNextEvents(worker, 100));
    expect(await countPersonal(world)).toBe(0)
    expect(await sequences(world)).toEqual(Array.from({ length: 12 }, (_, n) => n + 1))
  })

  test('is erased while many events get their sequences, without a gap in the feed', async ({ world }) => {
    await insertChanges(world, 3000)
    await shop.delete(`/v1/customers/${customer_id}`)
    const sequencers = [startSequencing(world), startSequencing(world)]
    while (await eraseNextEvents(worker, 40));
    await Promise.all(sequencers.map((sequencer) => sequencer.close()))
    await sequenceAllEvents(world.sql)
    expect(await countPersonal(world)).toBe(0)
    expect(await sequences(world)).toEqual(Array.from({ length: 3002 }, (_, n) => n + 1))
  })
})

test('delivery counts that the statistics no longer cover are deleted', async ({ world }) => {
  await world.sql`
    insert into webhook_stats (tenant_id, endpoint_id, hour, bucket, shard, count, last_at)
    select ${shop.tenant_id}, ${newId()}, date_trunc('hour', now()) - n * interval '1 day', 0, 0, 1, now()
    from generate_series(1, 20) n`
  expect(await deleteOldStats(worker, 5)).toBe(5)
  expect(await deleteOldStats(worker, 100)).toBe(8)
  expect(await world.sql`select from webhook_stats`).toHaveLength(7)
})

test('only old deleted endpoints and old completed recoveries are deleted from the database', async ({
  world,
}) => {
  const createEndpoint = async () =>
    (await shop.post('/v1/webhook_endpoints', { url: 'https://shop.example/', types: ['*'] })).body
      .id as string
  const [active, recently_deleted, long_deleted] = [
    await createEndpoint(),
    await createEndpoint(),
    await createEndpoint(),
  ]
  const recover = async (id: string) =>
    (await shop.post(`/v1/webhook_endpoints/${id}/recover`, { since: '2026-01-01T00:00:00Z' })).body
      .id as string
  const [open, completed] = [await recover(active), await recover(recently_deleted)]
  for (const id of [recently_deleted, long_deleted]) await shop.delete(`/v1/webhook_endpoints/${id}`)
  await world.sql`
    update webhook_endpoints set created_at = created_at - interval '1 year', updated_at = now() - interval '1 year',
      deleted_at = deleted_at - case when id = ${recently_deleted} then interval '120 days' else interval '122 days' end
    where tenant_id = ${shop.tenant_id}`
  await world.sql`
    update webhook_recoveries set updated_at = now() - interval '122 days',
      status = case when id = ${completed} then 'completed' else status end, after_at = case when id = ${completed} then null else after_at end
    where tenant_id = ${shop.tenant_id}`
  expect(await purgeDeletedEndpoints(worker, 121, 10)).toBe(1)
  expect(await purgeDeletedEndpoints(worker, 100, 0)).toBe(0)
  expect(await deleteOldRecoveries(worker, 121, 10)).toBe(1)
  const remaining = await world.sql<{ id: string }[]>`
    select id from webhook_endpoints where tenant_id = ${shop.tenant_id}
    union all select id from webhook_recoveries where tenant_id = ${shop.tenant_id}`
  expect(new Set(remaining.map(({ id }) => id))).toEqual(new Set([active, recently_deleted, open]))
})

test.for([
  ['the first partition', 0],
  ['a later partition', 14],
] as const)(
  'a rare event in %s of a long feed is found with few block reads',
  async ([_name, days], { world }) => {
    const add = async (type: string, subject_id: string | null, numbers: string) => {
      await world.sql`
      insert into events (tenant_id, type, subject_id, data, sequenced, sequence, created_at)
      select ${shop.tenant_id}, ${type}, coalesce(${subject_id}::uuid, gen_random_uuid()), '{}', true, n,
        now() + ${days} * interval '1 day'
      from generate_series(1, 30000) n where ${world.sql.unsafe(numbers)}`
      await rewriteFeed(world.sql, shop.tenant_id)
    }
    await add('customer.updated', null, 'n % 10000 <> 0')
    // The planner's statistics come from a sample that has none of the rare events.
    await world.sql`analyze`
    await add('refund.failed', shop.tenant_id, 'n % 10000 = 0')
    const server = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
    onTestFinished(() => server.end())
    const database = new URL(world.config.DATABASE_URL!).pathname.slice(1)
    const blocks = async () => {
      const [row] = await server<{ blocks: number }[]>`
      select sum(shared_blks_hit + shared_blks_read)::bigint as blocks from pg_stat_statements s
      where dbid = (select oid from pg_database where datname = ${database}) and query like '%from feed_entries f%'`
      return row!.blocks
    }
    const cases: [found: number, query: Omit<FeedQuery, 'limit'>][] = [
      [3, { after: 0, type: 'refund.failed' }],
      [3, { after: 0, type: 'refund.*' }],
      [3, { after: 0, subject_id: shop.tenant_id }],
      [0, { after: 0, type: 'message.*' }],
      [5, { after: 15_000 }],
      [0, { after: 30_000 }],
    ]
    for (const [found, query] of cases) {
      const list = () => listFeed(worker, shop.tenant_id, { ...query, limit: 5 })
      await list()
      const blocks_before = await blocks()
      expect([query, (await list()).length, (await blocks()) - blocks_before < 150]).toEqual([
        query,
        found,
        true,
      ])
    }
  },
)

test('the outbox is read by index, even if the planner uses statistics of an empty table', async ({
  world,
}) => {
  await sequenceAllEvents(world.sql)
  await world.sql`vacuum (analyze, truncate off) event_outbox`
  const [sequencer] = await world.sql<{ source: string; settings: string[] }[]>`
    select prosrc as source, proconfig as settings from pg_proc where proname = 'sequence_events' and pronargs = 2`
  const { source, settings } = sequencer!
  const statement = source.slice(
    source.indexOf('with recursive'),
    source.lastIndexOf(';', source.lastIndexOf('end')),
  )
  const plan: Node = await world.sql.begin(async (tx) => {
    for (const [name, value] of settings.map((setting) => setting.split('=')))
      await tx`select set_config(${name!}, ${value!}, true)`
    const [row] = await tx.unsafe(
      `explain (generic_plan, format json) ${statement.replaceAll(/\bmost\b/g, '$1').replaceAll(/\bsince\b/g, '$2')}`,
    )
    return row!['QUERY PLAN'][0].Plan
  })
  type Node = { [key: string]: unknown; Plans?: Node[] }
  const all = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(all)]
  const read = all(plan)
    .filter((node) => node['Relation Name'] === 'event_outbox' && node['Operation'] === undefined)
    .map((node) => node['Index Cond'] ?? node['TID Cond'])
  expect(read).toEqual([
    ...read.slice(1).map(() => expect.stringContaining('created_at >=')),
    expect.stringContaining('ctid'),
  ])
})
