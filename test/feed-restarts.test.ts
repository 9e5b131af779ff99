// Tests restarts of feeds after a switch of the database: no sequence names two events, and consumers that have read
// lost events are told.
import { describe, expect, onTestFinished } from 'vitest'
import { newId } from '#core/ids.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { findOverview } from '#domain/operations/overview.ts'
import { Sluice, SluiceError } from '#sdk/index.ts'
import {
  LOOPBACK,
  createEvent,
  deliveriesOf,
  openHook,
  registerEndpoint,
  untilArrived,
} from '#test/deliveries.ts'
import type { Answer, Client } from '#test/client.ts'
import type { Sql, Tx } from '#core/db.ts'
import { sequenceAllEvents } from '#test/feed.ts'
import { describeIn, testIn, type World } from '#test/world.ts'

type Shop = Client & { tenant_id: string }

const START_OF_SEQUENCES = Date.parse('2026-01-01T00:00:00Z')
const sequencesOf = ({ body }: Answer) => body.map(({ sequence }: { sequence: number }) => sequence)

/** Restarts all feeds as the transaction that records a switch does. Returns the reading that the witness keeps. */
async function restartFeeds({ sql }: World, clock: string | null = null): Promise<string> {
  const [row] = await sql.begin(
    (tx) => tx<{ reading: string }[]>`
      select restart_feeds((select coalesce(max(switch_number), 0) + 1 from feed_restarts), ${clock}) as reading`,
  )
  return row!.reading
}

/** Writes events of the tenant without sequences. */
async function writeEvents({ sql }: World, { tenant_id }: Shop, count: number, age = '0 s'): Promise<void> {
  await sql`
    insert into events (tenant_id, type, subject_id, data, created_at)
    select ${tenant_id}, 'merchant.updated', gen_random_uuid(), '{}', now() - ${age}::interval
    from generate_series(1, ${count})`
}

/** Takes the feed back: events after `last` are lost. */
async function rewind(sql: Sql | Tx, { tenant_id }: Shop, last: number): Promise<void> {
  await sql`
    with lost as (
      delete from feed_entries where tenant_id = ${tenant_id} and sequence > ${last} returning event_id
    )
    delete from events e using lost l where e.tenant_id = ${tenant_id} and e.id = l.event_id`
  await sql`update event_sequences set last_sequence = ${last} where tenant_id = ${tenant_id}`
}

async function createShop(world: World, events: number): Promise<Shop> {
  const shop = await world.clientOf()
  await writeEvents(world, shop, events)
  await sequenceAllEvents(world.sql)
  return shop
}

/** The end of the feed: the last sequence, or what a consumer beyond it is told. */
async function endOf(shop: Shop): Promise<number> {
  const { body } = await shop.get(`/v1/events?after=${Number.MAX_SAFE_INTEGER}`)
  return body.error.context.last_sequence_before as number
}

const read = (shop: Shop, after: number, query = '') => shop.get(`/v1/events?after=${after}${query}`)

async function expectRestarted(answer: Promise<Answer>, last_sequence_before: number, next_sequence: number) {
  const { status, body } = await answer
  expect([status, body.error]).toMatchObject([
    409,
    { code: 'feed_restarted', param: 'after', context: { last_sequence_before, next_sequence } },
  ])
  for (const number of [last_sequence_before, next_sequence])
    expect(body.error.message).toContain(String(number))
}

const test = testIn({ parts: ['api'], env: LOOPBACK })

test('a consumer beyond the end of a feed is answered 409, also before any restart', async ({ world }) => {
  const shop = await createShop(world, 6)
  expect((await read(shop, 6)).body).toEqual([])
  await expectRestarted(read(shop, 7), 6, 7)
  await rewind(world.sql, shop, 4)
  for (const after of [5, 6]) await expectRestarted(read(shop, after), 4, 5)
  await expectRestarted(read(await world.clientOf(), 1), 0, 1)
})

test('after a restart, a consumer goes on unless it has read lost events', async ({ world }) => {
  const shop = await createShop(world, 6)
  await rewind(world.sql, shop, 4)
  await writeEvents(world, shop, 2)
  const before = (Date.now() - START_OF_SEQUENCES) * 1000
  await restartFeeds(world)
  const [restarted] = (await read(shop, 4)).body
  const next = restarted.sequence as number
  expect(next).toBeGreaterThanOrEqual(before)
  expect(restarted).toMatchObject({
    type: 'feed.restarted',
    subject_type: 'feed',
    data: {
      tenant_id: shop.tenant_id,
      last_sequence_before: 4,
      next_sequence: next,
      created_at: restarted.created_at,
    },
  })
  // Events without a sequence follow, in their order.
  await sequenceAllEvents(world.sql)
  expect(sequencesOf(await read(shop, 0))).toEqual([1, 2, 3, 4, next, next + 1, next + 2])
  for (const [after, found] of [
    [3, [4, next, next + 1, next + 2]],
    [4, [next, next + 1, next + 2]],
    [next, [next + 1, next + 2]],
    [next + 2, []],
  ] as const)
    expect(sequencesOf(await read(shop, after))).toEqual(found)
  for (const after of [5, 6, 1_000_000, next - 1])
    for (const filter of ['', '&type=merchant.*', '&type=payment.*', `&subject_id=${newId()}`])
      await expectRestarted(read(shop, after, filter), 4, next)
  await expectRestarted(read(shop, next + 3), next + 2, next + 3)
})

test('each tenant gets the event of the restart, also one whose feed is empty', async ({ world }) => {
  const [empty, full] = [await world.clientOf(), await createShop(world, 3)]
  await restartFeeds(world)
  for (const [shop, last] of [
    [empty, 0],
    [full, 3],
  ] as const) {
    const { body } = await read(shop, last)
    expect(body.map(({ type, data }: any) => [type, data.last_sequence_before])).toEqual([
      ['feed.restarted', last],
    ])
    await expectRestarted(read(shop, last + 1), last, body[0].sequence)
  }
})

test('no order of restarts gives a sequence twice, even if the clock was set back', async ({ world }) => {
  const shop = await createShop(world, 2)
  // Each server is an hour behind the clock of the first, and each restore loses the restart before it.
  let clock = new Date(Date.now() + 3_600_000).toISOString()
  const given: number[] = []
  for (let nth = 0; nth < 3; nth++) {
    clock = await restartFeeds(world, clock)
    await writeEvents(world, shop, 5)
    await sequenceAllEvents(world.sql)
    given.push(...sequencesOf(await read(shop, 2)))
    await rewind(world.sql, shop, 2)
    await world.sql`delete from feed_entries f where not exists (select from events e where e.id = f.event_id)`
    await world.sql`delete from feed_restarts where tenant_id = ${shop.tenant_id}`
  }
  expect(new Set(given).size).toBe(18)
  expect(given).toEqual(given.toSorted((a, b) => a - b))
  // Without a loss, the second restart goes on after the first.
  await restartFeeds(world, new Date(Date.now() + 86_400_000).toISOString())
  const first = await endOf(shop)
  await restartFeeds(world)
  expect(await endOf(shop)).toBe(first + 1)
  await expectRestarted(read(shop, first - 1), 2, first)
})

test('a waiting request is answered 409 at a restart', async ({ world }) => {
  const shop = await createShop(world, 6)
  const waits = (after: number, query = '') =>
    shop.get(`/v1/events?after=${after}${query}`, { prefer: 'wait=30' })
  await expectRestarted(waits(7), 6, 7)
  const [lost, present] = [waits(6), waits(6, '&type=feed.*')]
  await world.sql.begin(async (tx) => {
    await rewind(tx, shop, 4)
    await tx`select restart_feeds(1000, null)`
  })
  const next = await endOf(shop)
  await expectRestarted(lost, 4, next)
  await expectRestarted(present, 4, next)
  const again = waits(next)
  await writeEvents(world, shop, 1)
  await sequenceAllEvents(world.sql)
  expect(sequencesOf(await again)).toEqual([next + 1])
})

test('a list by time has the restart, and the older events that follow it', async ({ world }) => {
  const shop = await world.clientOf()
  await writeEvents(world, shop, 1, '3 days')
  await sequenceAllEvents(world.sql)
  await writeEvents(world, shop, 3, '2 days')
  await restartFeeds(world)
  await sequenceAllEvents(world.sql)
  await writeEvents(world, shop, 2)
  await sequenceAllEvents(world.sql)
  const next = (await endOf(shop)) - 5
  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()
  const found = async (query: string) => sequencesOf(await read(shop, 0, query))
  expect(await found(`&created_to=${daysAgo(1)}`)).toEqual([1, next + 1, next + 2, next + 3])
  expect(await found(`&created_from=${daysAgo(2.5)}&created_to=${daysAgo(1)}`)).toEqual([
    next + 1,
    next + 2,
    next + 3,
  ])
  expect(await found(`&created_from=${daysAgo(1)}`)).toEqual([next, next + 4, next + 5])
  const { created_at } = (await read(shop, 1)).body[0]
  expect(await found(`&created_from=${created_at}`)).toEqual([next, next + 4, next + 5])
})

test('the figures of the dashboard do not count the gap', async ({ world }) => {
  const shop = await createShop(world, 3)
  await world.sql`insert into payment_cursors (tenant_id, sequence) values (${shop.tenant_id}, 2)`
  await restartFeeds(world)
  expect(await findOverview(world.sql, shop.tenant_id)).toMatchObject({ uncounted_events: 2 })
  await world.sql`
    update payment_cursors set sequence = ${await endOf(shop)} where tenant_id = ${shop.tenant_id}`
  expect(await findOverview(world.sql, shop.tenant_id)).toMatchObject({ uncounted_events: 0 })
})

test('the SDK throws an error with both sequences, when it lists and when it follows', async ({ world }) => {
  const shop = await createShop(world, 4)
  await rewind(world.sql, shop, 2)
  await restartFeeds(world)
  const { events } = new Sluice({ api_key: shop.key, base_url: shop.url })
  const context = { last_sequence_before: 2, next_sequence: await endOf(shop) }
  const iterate = async (iteration: AsyncIterable<object>) => {
    for await (const event of iteration) return event
    return undefined
  }
  for (const iteration of [events.list({ after: 4 }), events.follow({ after: 4 })]) {
    const error = await iterate(iteration).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(SluiceError)
    expect(error).toMatchObject({ code: 'feed_restarted', context, maybe_done: false })
    expect((error as Error).message).toContain(String(context.next_sequence))
  }
  const next = await iterate(events.follow({ after: context.last_sequence_before }))
  expect(next).toMatchObject({ type: 'feed.restarted', data: context })
})

describe('the audit', () => {
  async function findProblems({ sql }: World): Promise<(string | null)[][]> {
    const reports = [
      await auditEverything(sql),
      await auditChanges(sql, new Date(Date.now() - 3_600_000).toISOString(), []),
    ]
    return reports.map(({ problems }) => problems.map(({ problem }) => problem))
  }

  test('accepts the gaps of restarts, and no others', async ({ world }) => {
    const shop = await world.clientOf()
    await registerEndpoint(shop, { url: 'http://127.0.0.1:9/hook' })
    await createEvent(shop)
    await sequenceAllEvents(world.sql)
    await world.sql`delete from events where subject_id not in (select id from customers union select id from webhook_endpoints)`
    await world.sql`delete from feed_entries f where not exists (select from events e where e.id = f.event_id)`
    await world.sql`delete from feed_restarts where tenant_id <> ${shop.tenant_id}`
    await world.sql`delete from event_sequences where tenant_id <> ${shop.tenant_id} and last_sequence > 0`
    await restartFeeds(world)
    await createEvent(shop)
    await sequenceAllEvents(world.sql)
    expect(await findProblems(world)).toEqual([[], []])
    await world.sql`
      update feed_restarts set last_sequence_before = last_sequence_before - 1 where tenant_id = ${shop.tenant_id}`
    expect(await findProblems(world)).toEqual([['a sequence is missing'], ['a sequence is missing']])
    await world.sql`delete from feed_entries f where not exists (select from events e where e.id = f.event_id)`
    await world.sql`delete from feed_restarts where tenant_id = ${shop.tenant_id}`
    for (const problems of await findProblems(world)) expect(problems).toContain('a sequence is missing')
  })
})

describeIn('with a worker', { env: LOOPBACK }, (test) => {
  test('the event is sent to the endpoints that subscribe to it, before those that follow', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const hook = await openHook()
    onTestFinished(() => hook.close())
    const all = await registerEndpoint(shop, { url: `${hook.url}/all`, ordered: true })
    const some = await registerEndpoint(shop, { url: `${hook.url}/some`, types: ['feed.restarted'] })
    const others = await registerEndpoint(shop, { url: `${hook.url}/others`, types: ['payment.*'] })
    await shop.patch(`/v1/webhook_endpoints/${others.id}`, { types: ['feed.*'], status: 'disabled' })
    await world.drain()
    await restartFeeds(world)
    await createEvent(shop)
    const restarts = () => hook.arrived.filter(({ body }) => body.type === 'feed.restarted')
    while (restarts().length < 2) await untilArrived(hook, hook.arrived.length + 1)
    await world.drain()
    const { body } = restarts()[0]!
    expect(body).toMatchObject({ sequence: body.data.next_sequence, tenant_id: shop.tenant_id })
    const delivered = async ({ id }: { id: string }) =>
      (await deliveriesOf(shop, id)).map(({ type, status }) => `${type} ${status}`)
    expect((await delivered(all)).slice(-2)).toEqual([
      'feed.restarted delivered',
      'customer.created delivered',
    ])
    expect(await delivered(some)).toEqual(['feed.restarted delivered'])
    expect(await delivered(others)).toEqual(['feed.restarted skipped'])
  })
})
