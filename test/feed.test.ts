// Tests the feed of events: each reader receives each event once, in one order, even after late commits.
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest'
import { queueConfig } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { listLatestEvents } from '#domain/feed.ts'
import { openQueue } from '#queue/queue.ts'
import { createClient, freshKey, type Answer, type Client } from '#test/client.ts'
import { follow, rewriteFeed, sequenceAllEvents, startSequencing } from '#test/feed.ts'
import { capturedPayment, eventually, refund } from '#test/payments.ts'
import { startInThisProcess } from '#test/parts.ts'
import { postgresUrl } from '#test/suite.ts'
import { createLog } from '#core/log.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn()

type Tenant = Client & { tenant_id: string }

const sequencesOf = (events: { sequence: number }[]) => events.map(({ sequence }) => sequence)
const sequencesUpTo = (last: number) => Array.from({ length: last }, (_, n) => n + 1)

/** Writes an event of a customer that does not exist, and commits after `late_ms`. Returns the event's id. */
async function writeEvent(
  world: World,
  tenant_id: string,
  late_ms = 0,
  type = 'customer.updated',
): Promise<string> {
  const id = newId()
  await world.sql.begin(async (tx) => {
    await tx`
      insert into events (tenant_id, id, type, subject_id, data) values (${tenant_id}, ${id}, ${type}, ${id}, '{}')`
    if (late_ms > 0) await sleep(late_ms)
  })
  return id
}

test('500 writers commit late and in any order: every reader receives each event once, in one order without gaps', async ({
  world,
}) => {
  const writers = connectDatabase(world.config.DATABASE_URL!, { max: 60, application_name: 'test' })
  onTestFinished(() => writers.end())
  const reader = await world.clientOf()
  const sequencers = [startSequencing(world), startSequencing(world)]
  const readers = [1, 2, 3, 7, 25].map((limit) => follow(reader, 500, limit))
  await Promise.all(
    Array.from({ length: 500 }, (_, n) =>
      writers.begin(async (tx) => {
        await tx`
          insert into events (tenant_id, type, subject_id, data)
          values (${reader.tenant_id}, 'customer.updated', gen_random_uuid(), ${tx.json({ n })})`
        await sleep((n * 7919) % 97)
      }),
    ),
  )
  const seen = await Promise.all(readers)
  await Promise.all(sequencers.map((sequencer) => sequencer.close()))
  for (const events of seen) {
    expect(sequencesOf(events)).toEqual(sequencesUpTo(500))
    expect(events).toEqual(seen[0])
  }
  expect(new Set(seen[0]!.map(({ data }) => data.n)).size).toBe(500)
})

test('an event that is committed late receives a later sequence, and can be read only by its id until then', async ({
  world,
}) => {
  const reader = await world.clientOf()
  const slow = await world.sql.reserve()
  onTestFinished(() => slow.release())
  const early = newId()
  await slow`begin`
  await slow`
    insert into events (tenant_id, id, type, subject_id, data)
    values (${reader.tenant_id}, ${early}, 'customer.created', ${early}, '{}')`
  const late = await writeEvent(world, reader.tenant_id)
  await sequenceAllEvents(world.sql)
  const sequencer = await blockSequencer(world)
  await slow`commit`
  const { body } = await reader.get(`/v1/events/${early}`)
  expect(body).toMatchObject({ id: early, sequence: null, subject_type: 'customer', subject_id: early })
  expect((await reader.get('/v1/events')).body.map(({ id }: { id: string }) => id)).toEqual([late])
  await sequencer.release()
  await sequenceAllEvents(world.sql)
  const events = (await reader.get('/v1/events')).body
  expect(events.map(({ id, sequence }: any) => [id, sequence])).toEqual([
    [late, 1],
    [early, 2],
  ])
  expect((await reader.get(`/v1/events/${early}`)).body).toEqual(events[1])
})

test('an event that is committed late is found by the time of its creation', async ({ world }) => {
  const reader = await world.clientOf()
  const slow = await world.sql.reserve()
  onTestFinished(() => slow.release())
  await slow`begin`
  await slow`
    insert into events (tenant_id, type, subject_id, data)
    values (${reader.tenant_id}, 'customer.created', ${newId()}, '{}')`
  await writeEvent(world, reader.tenant_id)
  await sequenceAllEvents(world.sql)
  await slow`commit`
  await sequenceAllEvents(world.sql)
  const [late, early] = (await reader.get('/v1/events')).body
  expect([late.sequence, early.created_at < late.created_at]).toEqual([1, true])
  const found = async (query: string) => sequencesOf((await reader.get(`/v1/events?${query}`)).body)
  expect(await found(`created_to=${late.created_at}`)).toEqual([2])
  expect(await found(`created_from=${early.created_at}`)).toEqual([1, 2])
  expect(await found(`created_from=${late.created_at}`)).toEqual([1])
  expect(await found(`created_from=${early.created_at}&created_to=${late.created_at}`)).toEqual([2])
})

/** Blocks the assignment of sequences until `release`. */
async function blockSequencer(world: World): Promise<{ release: () => Promise<void> }> {
  const lock = await world.sql.reserve()
  await lock`begin`
  await lock`select from event_sequences where tenant_id = ${SYSTEM_TENANT_ID} for update`
  return {
    async release() {
      await lock`rollback`
      lock.release()
    },
  }
}

test('the migration of older events gives each its entry, in batches, and can be repeated', async ({
  world,
}) => {
  const tenants = [await world.clientOf(), await world.clientOf()]
  for (const [nth, { tenant_id }] of tenants.entries())
    await world.sql`
      insert into events (tenant_id, type, subject_id, data, sequenced, sequence, created_at)
      select ${tenant_id}, 'customer.updated', gen_random_uuid(), '{}', true, n, now() + n % 3 * interval '7 days'
      from generate_series(1, ${[7000, 3][nth]!}::integer) n`
  const file = new URL('../migrations/0032_feed_entries.concurrently.sql', import.meta.url)
  // Here no sequencer of an earlier version runs, which the migration waits for.
  const migration = (await readFile(file, 'utf8')).replace('pg_sleep(13)', 'pg_sleep(0)')
  const owner = postgres(world.env['DATABASE_URL']!, { max: 1 })
  onTestFinished(() => owner.end())
  for (let time = 0; time < 2; time++) await owner.unsafe(migration)
  const entries = await owner`
    select f.tenant_id, count(*)::integer as entries, count(e.id)::integer as events, max(f.sequence)::integer as last
    from feed_entries f left join events e on e.tenant_id = f.tenant_id and e.id = f.event_id
      and e.created_at = f.created_at and e.sequence = f.sequence and e.type = f.type
    where f.tenant_id = any(${tenants.map(({ tenant_id }) => tenant_id)}::uuid[]) group by 1 order by 2 desc`
  expect(entries).toEqual([
    { tenant_id: tenants[0]!.tenant_id, entries: 7000, events: 7000, last: 7000 },
    { tenant_id: tenants[1]!.tenant_id, entries: 3, events: 3, last: 3 },
  ])
})

describe('a list', () => {
  let shop: Tenant
  let payment: any
  let returned: any
  test.beforeAll(async ({ world }) => {
    shop = await world.clientOf()
    await shop.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
    payment = await capturedPayment(shop)
    const refunded = await capturedPayment(shop)
    returned = (await refund(shop, refunded.id, { amount_minor: 300 })).body
    await world.drain()
    await sequenceAllEvents(world.sql)
  })

  const all = async (query = '') => (await shop.get(`/v1/events?limit=100${query}`)).body

  test('of the latest events is the reverse of the feed, with any filter', async ({ world }) => {
    const latest = async (query: Partial<Parameters<typeof listLatestEvents>[2]>) =>
      (await listLatestEvents(world.sql, shop.tenant_id, { limit: 100, ...query })).map(({ id }) => id)
    const backwards = async (query = '') => (await all(query)).map(({ id }: any) => id).toReversed()
    expect(await latest({})).toEqual(await backwards())
    expect(await latest({ type: 'payment.*' })).toEqual(await backwards('&type=payment.*'))
    expect(await latest({ subject_id: returned.id })).toEqual(await backwards(`&subject_id=${returned.id}`))
    const [, , third] = sequencesOf(await all()).toReversed()
    expect(await latest({ before: third!, limit: 2 })).toEqual((await backwards()).slice(3, 5))
  })

  test('is filtered by type, by all types of a resource and by the resource itself', async () => {
    const events = await all()
    expect(sequencesOf(events)).toEqual(sequencesUpTo(events.length))
    expect(await all('&type=*')).toEqual(events)
    const ofType = (wanted: RegExp) => events.filter(({ type }: any) => wanted.test(type))
    expect(await all('&type=payment.*')).toEqual(ofType(/^payment\./))
    expect(await all('&type=refund.succeeded')).toEqual(ofType(/^refund\.succeeded$/))
    expect(await all('&type=refund.succeeded')).toHaveLength(1)
    const ofSubject = (id: string) => events.filter(({ subject_id }: any) => subject_id === id)
    for (const { id } of [payment, returned]) {
      expect(ofSubject(id).length).toBeGreaterThan(0)
      expect(await all(`&subject_id=${id}`)).toEqual(ofSubject(id))
    }
    expect(ofSubject(returned.id)[0]).toMatchObject({ type: 'refund.created', subject_type: 'refund' })
    expect(await all(`&subject_id=${returned.id}&type=refund.succeeded`)).toEqual(
      ofType(/^refund\.succeeded$/),
    )
    expect(await all(`&subject_id=${newId()}`)).toEqual([])
  })

  test('is filtered by the time of creation, and keeps the order of sequences', async () => {
    const events = await all()
    const times = [0, 3, 7, events.length - 1].map((nth) => events[nth].created_at as string)
    for (const from of times)
      for (const to of times) {
        const within = events.filter(({ created_at }: any) => created_at >= from && created_at < to)
        expect(await all(`&created_from=${from}&created_to=${to}`)).toEqual(within)
        expect(await all(`&created_from=${from}&created_to=${to}&type=payment.*`)).toEqual(
          within.filter(({ type }: any) => type.startsWith('payment.')),
        )
        expect(await all(`&created_from=${from}&subject_id=${payment.id}`)).toEqual(
          events.filter(({ created_at, subject_id }: any) => created_at >= from && subject_id === payment.id),
        )
        const listed: any[] = []
        for (let url = `/v1/events?limit=2&created_from=${from}&created_to=${to}`; ;) {
          const page = await shop.get(url)
          if (page.body.length === 0) break
          listed.push(...page.body)
          url = /<(.+)>/.exec(page.headers.get('link')!)![1]!
        }
        expect(listed).toEqual(within)
      }
    expect(await all(`&created_to=${times[1]}`)).toEqual(events.slice(0, 3))
    expect(await all(`&created_from=${times[1]}&after=5`)).toEqual(events.slice(5))
    expect(await all('&created_from=0001-01-01T00:00:00Z&created_to=9999-12-31T23:59:59Z')).toEqual(events)
  })

  test('always has a link to the next page, with its filters', async () => {
    const nextOf = async (path: string) => {
      const { body, headers } = await shop.get(path)
      return { sequences: sequencesOf(body), next: /^<(.+)>; rel="next"$/.exec(headers.get('link')!)![1] }
    }
    const last = (await all()).length
    expect(await nextOf('/v1/events?limit=2')).toEqual({
      sequences: [1, 2],
      next: '/v1/events?limit=2&after=2',
    })
    expect(await nextOf(`/v1/events?after=${last}`)).toEqual({
      sequences: [],
      next: `/v1/events?after=${last}`,
    })
    const { sequences, next } = await nextOf('/v1/events?type=refund.*&limit=1')
    expect([sequences.length, next]).toEqual([1, `/v1/events?type=refund.*&limit=1&after=${sequences[0]}`])
    const pages: any[] = []
    for (let url = '/v1/events?limit=3&type=payment.*'; pages.at(-1)?.length !== 0;) {
      const page = await shop.get(url)
      pages.push(page.body)
      url = /<(.+)>/.exec(page.headers.get('link')!)![1]!
    }
    expect(pages.flat()).toEqual(await all('&type=payment.*'))
  })

  test('of the events of a payment includes the events of its refunds, oldest first and in pages', async () => {
    const path = `/v1/payments/${returned.payment_id}/events`
    const whole = (await shop.get(path)).body
    expect(whole.map(({ type }: any) => type)).toEqual([
      'payment.created',
      'payment.authorized',
      'payment.captured',
      'refund.created',
      'refund.succeeded',
    ])
    expect(whole[3]).toEqual((await all(`&subject_id=${returned.id}`))[0])
    const listed: any[] = []
    for (let url: string | undefined = `${path}?limit=2`; url;) {
      const page = await shop.get(url)
      listed.push(...page.body)
      url = /<(.+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1]
    }
    expect(listed).toEqual(whole)
  })

  test('has no events of another tenant', async ({ world }) => {
    const other = await world.clientOf()
    const [event] = await all()
    expect((await other.get('/v1/events')).body).toEqual([])
    expect((await other.get(`/v1/events?subject_id=${payment.id}`)).body).toEqual([])
    for (const path of [`/v1/events/${event.id}`, `/v1/events/${newId()}`])
      expect((await other.get(path)).body.error).toMatchObject({ code: 'event_not_found' })
    expect((await other.get(`/v1/payments/${payment.id}/events`)).status).toBe(404)
  })

  test.each([
    ['after', ['-1', '1.5', 'x', '9007199254740992', '99999999999999999999', '']],
    ['limit', ['0', '101', 'x']],
    ['type', ['payment', 'payment.', 'payment.*.*', 'pay*', 'payment.paid', '**', '']],
    ['subject_id', ['x', '']],
    ['before', ['2026-11-20T10:15:30.123456Z']],
    ['created_from', ['yesterday', '2026-02-30T00:00:00Z', '']],
    ['created_to', ['17']],
  ])('is refused for an invalid %s', async (param, values) => {
    for (const value of values) {
      const { status, body } = await shop.get(`/v1/events?${param}=${value}`)
      expect([value, status, body.error.code]).toEqual([value, 400, 'invalid_request'])
    }
  })

  test.each([
    ['after=-1', 'after must be a whole number from 0 to 9007199254740991.'],
    ['after=99999999999999999999', 'after must be a whole number from 0 to 9007199254740991.'],
    ['after=9007199254740992', 'after must be a whole number from 0 to 9007199254740991.'],
    [
      'type=payment.capturd',
      'type `payment.capturd` is not an event type; did you mean `payment.captured`? The reference at /docs lists all types.',
    ],
    [
      'type=payment',
      'type `payment` is not an event type; did you mean `payment.*`? The reference at /docs lists all types.',
    ],
    ['type=dispute.*', 'type `dispute.*` is not an event type. The reference at /docs lists all types.'],
    ['type=*&type=*', 'type comes more than once.'],
  ])('is refused for %s, and the error explains the mistake', async (query, message) => {
    expect((await shop.get(`/v1/events?${query}`)).body.error.message).toBe(message)
  })

  test('that begins after the highest possible sequence is refused, like any position beyond the end', async () => {
    const { status, body } = await shop.get(`/v1/events?after=${Number.MAX_SAFE_INTEGER}`)
    const last = (await all()).length
    expect([status, body.error.code]).toEqual([409, 'feed_restarted'])
    expect(body.error.context).toEqual({ last_sequence_before: last, next_sequence: last + 1 })
  })
})

describe('a waiting request', () => {
  let server: Sql
  beforeAll(async () => {
    server = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
  })
  afterAll(() => server.end())

  /** The count of the API's statements with this text in this database, and the count of the blocks that they read. */
  async function measureReads(world: World, text: string): Promise<{ calls: number; blocks: number }> {
    const database = new URL(world.config.DATABASE_URL!).pathname.slice(1)
    const user = new URL(urlAs('api', world.config.DATABASE_URL!)).username
    const [row] = await server<{ calls: number; blocks: number }[]>`
      select coalesce(sum(calls), 0)::integer as calls,
        coalesce(sum(shared_blks_hit + shared_blks_read), 0)::integer as blocks from pg_stat_statements
      where dbid = (select oid from pg_database where datname = ${database})
        and userid = (select oid from pg_roles where rolname = ${user})
        and position(${text} in regexp_replace(query, '\\s+', ' ', 'g')) > 0 and query not like '%pg_stat_statements%'`
    return row!
  }

  const sendWaiting = (reader: Client, query = '', wait = 30) =>
    reader.get(`/v1/events?${query}`, { prefer: `wait=${wait}` })

  test('is answered when an event arrives that matches its filter', async ({ world }) => {
    const reader = await world.clientOf()
    const [any, filtered] = [sendWaiting(reader), sendWaiting(reader, 'type=merchant.*')]
    await writeEvent(world, reader.tenant_id)
    await sequenceAllEvents(world.sql)
    const first = await any
    expect([sequencesOf(first.body), first.headers.get('preference-applied')]).toEqual([[1], 'wait=30'])
    await writeEvent(world, reader.tenant_id, 0, 'merchant.created')
    await sequenceAllEvents(world.sql)
    const second = await filtered
    expect([sequencesOf(second.body), second.headers.get('link')]).toEqual([
      [2],
      '</v1/events?type=merchant.*&after=2>; rel="next"',
    ])
  })

  test('reads again after each state that the queue publishes for its tenant, even without a new event', async ({
    world,
  }) => {
    const reader = await world.clientOf()
    const queue = openQueue(queueConfig(world.config), { log: () => {}, process_id: randomUUID() })
    onTestFinished(() => queue.close())
    const countReads = async () =>
      (await measureReads(world, 'select last_sequence from event_sequences')).calls
    const before = await countReads()
    const answer = sendWaiting(reader)
    // The request reads once when it begins. Without a new event, only a published state makes the API read again.
    await eventually(async () => {
      queue.publish([{ id: reader.tenant_id, state: 'succeeded' }])
      expect(await countReads()).toBeGreaterThan(before + 2)
    })
    await writeEvent(world, reader.tenant_id)
    await sequenceAllEvents(world.sql)
    expect(sequencesOf((await answer).body)).toEqual([1])
  })

  test.for(['', '&type=customer.*', '&type=merchant.*'])(
    'that begins at a time finds its place among many events without reading the earlier events: %s',
    async (type, { world }) => {
      const reader = await world.clientOf()
      await world.sql`
        insert into events (tenant_id, type, subject_id, data, sequenced, sequence, created_at)
        select ${reader.tenant_id}, (array['customer.created', 'customer.updated', 'customer.deleted'])[1 + n % 3],
          gen_random_uuid(), '{}', true, n, '2026-01-01T00:00:00Z'::timestamptz + n * interval '10 seconds'
        from generate_series(1, 60000) n`
      await rewriteFeed(world.sql, reader.tenant_id)
      await world.sql`insert into event_sequences (tenant_id, last_sequence) values (${reader.tenant_id}, 60000)`
      // Creates the statistics that autovacuum would create.
      await world.sql`analyze events, feed_entries`
      const found = async (query: string) =>
        sequencesOf((await reader.get(`/v1/events?limit=3${type}&${query}`)).body)
      const before = await measureReads(world, 'feed_entries f')
      // The page after the 20,000th event, the end of the time range, and the empty page after the end.
      const pages = [
        await found('created_from=2026-01-03T07:33:20Z'),
        await found('created_from=2026-01-03T07:33:20Z&created_to=2026-01-03T07:33:40Z'),
        await found('created_from=2026-01-03T07:33:20Z&created_to=2026-01-03T07:33:40Z&after=20001'),
      ]
      const { blocks } = await measureReads(world, 'feed_entries f')
      expect(pages).toEqual(
        type === '&type=merchant.*' ? [[], [], []] : [[20_000, 20_001, 20_002], [20_000, 20_001], []],
      )
      expect(blocks - before.blocks).toBeLessThan(800)
    },
  )

  test('for a time range is answered by the first event that is created in the range', async ({ world }) => {
    const reader = await world.clientOf()
    await writeEvent(world, reader.tenant_id)
    await sequenceAllEvents(world.sql)
    const [{ created_at }] = (await reader.get('/v1/events')).body
    const [before, after] = [
      sendWaiting(reader, `created_to=${created_at}`, 1),
      sendWaiting(reader, `created_from=${created_at}&after=1`),
    ]
    await writeEvent(world, reader.tenant_id)
    await sequenceAllEvents(world.sql)
    expect(sequencesOf((await after).body)).toEqual([2])
    const { body, headers } = await before
    expect([body, headers.get('link')]).toEqual([
      [],
      `</v1/events?created_to=${encodeURIComponent(created_at)}&after=0>; rel="next"`,
    ])
  })

  test.for(['', 'type=merchant.*&'])('does not read events a second time: %s', async (type, { world }) => {
    const reader = await world.clientOf()
    const subject_id = newId()
    await world.sql`
      insert into events (tenant_id, type, subject_id, data, sequenced, sequence)
      select ${reader.tenant_id}, 'customer.updated', ${subject_id}, '{"id": "another"}', true, n
      from generate_series(1, 5000) n`
    await rewriteFeed(world.sql, reader.tenant_id)
    await world.sql`insert into event_sequences (tenant_id, last_sequence) values (${reader.tenant_id}, 5000)`
    const before = await measureReads(world, 'from feed_entries f')
    const answer = sendWaiting(reader, `${type}subject_id=${subject_id}`)
    await eventually(async () =>
      expect((await measureReads(world, 'from feed_entries f')).calls).toBeGreaterThan(before.calls),
    )
    const first = await measureReads(world, 'from feed_entries f')
    for (let calls = first.calls; calls < first.calls + 4; calls++) {
      await writeEvent(world, reader.tenant_id)
      await sequenceAllEvents(world.sql)
      await eventually(async () =>
        expect((await measureReads(world, 'from feed_entries f')).calls).toBeGreaterThan(calls),
      )
    }
    const last = await measureReads(world, 'from feed_entries f')
    await world.sql`
      insert into events (tenant_id, type, subject_id, data)
      values (${reader.tenant_id}, 'merchant.created', ${subject_id}, ${world.sql.json({ id: subject_id })})`
    await sequenceAllEvents(world.sql)
    expect(sequencesOf((await answer).body)).toEqual([5005])
    expect(last.blocks - first.blocks).toBeLessThan((first.blocks - before.blocks) / 2)
  })

  test('whose repeated reads are slow counts more against the rate limit', async ({ world }) => {
    const env = { ...world.env, RATE_LIMIT_RPS: '1', RATE_LIMIT_BURST: '100' }
    const api = await startInThisProcess('api', env, createLog('silent', 'test'))
    onTestFinished(() => api.close())
    const reader = await world.clientOf()
    const client = createClient(api.url!, reader.key)
    const queue = openQueue(queueConfig(world.config), { log: () => {}, process_id: randomUUID() })
    onTestFinished(() => queue.close())
    const before = await measureReads(world, 'select last_sequence from event_sequences')
    const answer = sendWaiting(client, 'type=merchant.*')
    await eventually(async () =>
      expect((await measureReads(world, 'select last_sequence from event_sequences')).calls).toBeGreaterThan(
        before.calls,
      ),
    )
    await world.sql.begin(async (tx) => {
      await tx`lock table event_sequences in access exclusive mode`
      await eventually(async () => {
        queue.publish([{ id: reader.tenant_id, state: 'succeeded' }])
        const waits = await world.sql`
          select from pg_stat_activity where datname = current_database() and application_name = 'sluice-api-lists'
            and wait_event_type = 'Lock'`
        expect(waits.count).toBeGreaterThan(0)
      })
      await sleep(50)
    })
    await writeEvent(world, reader.tenant_id, 0, 'merchant.created')
    await sequenceAllEvents(world.sql)
    expect(sequencesOf((await answer).body)).toEqual([1])
    const { headers } = await client.get('/v1/events')
    expect(Number(headers.get('ratelimit-remaining'))).toBeLessThan(98)
  })

  test('without a new event is answered at the end of its wait, and a request that finds events is answered at once', async ({
    world,
  }) => {
    const reader = await world.clientOf()
    const empty = await sendWaiting(reader, 'after=0', 1)
    expect([empty.status, empty.body, empty.headers.get('link')]).toEqual([
      200,
      [],
      '</v1/events?after=0>; rel="next"',
    ])
    await writeEvent(world, reader.tenant_id)
    await sequenceAllEvents(world.sql)
    expect(sequencesOf((await sendWaiting(reader)).body)).toEqual([1])
  })

  /** Sends one request more than may wait. The refusal of the last request shows that the others wait. */
  async function fillWaiting(reader: Client): Promise<Promise<Answer>[]> {
    const answers = Array.from({ length: 21 }, () => sendWaiting(reader))
    const { status, body } = await Promise.race(answers)
    expect([status, body.error.code]).toEqual([429, 'rate_limited'])
    return answers
  }

  test('is answered without events when the process closes', async ({ world }) => {
    const api = await startInThisProcess('api', world.env, createLog('silent', 'test'))
    const answers = await fillWaiting(createClient(api.url!, (await world.clientOf()).key))
    await api.close()
    const bodies = (await Promise.all(answers)).filter(({ status }) => status === 200).map(({ body }) => body)
    expect(bodies).toEqual(Array.from({ length: 20 }, () => []))
  })

  test('does not count as a list, and a key may have 20 waiting requests', async ({ world }) => {
    const reader = await world.clientOf()
    const answers = await fillWaiting(reader)
    expect((await reader.get('/v1/payments')).status).toBe(200)
    await writeEvent(world, reader.tenant_id)
    await sequenceAllEvents(world.sql)
    const seen = (await Promise.all(answers)).filter(({ status }) => status === 200)
    expect(seen.map(({ body }) => sequencesOf(body))).toEqual(Array.from({ length: 20 }, () => [1]))
  })

  test('whose client disconnects frees its place', async ({ world }) => {
    const reader = await world.clientOf()
    const cancellation = new AbortController()
    const headers = { authorization: `Bearer ${reader.key}`, prefer: 'wait=30' }
    const responses = Array.from({ length: 21 }, () =>
      fetch(`${reader.url}/v1/events`, { headers, signal: cancellation.signal }).then(
        ({ status }) => status,
        () => 'left',
      ),
    )
    expect(await Promise.race(responses)).toBe(429)
    cancellation.abort()
    expect((await Promise.all(responses)).filter((each) => each === 'left')).toHaveLength(20)
    await eventually(async () => expect((await sendWaiting(reader, '', 1)).status).toBe(200))
  })
})
