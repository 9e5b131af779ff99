// The outbox of events: each event gets its position once, after all events that were committed before it.
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi, type Mock } from 'vitest'
import type { Sql, Tx } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { connectDatabase } from '#core/pool.ts'
import type { OpenWrites } from '#domain/sequencing.ts'
import { createOutboxReach } from '#workers/outbox-reach.ts'
import { createSequencer } from '#workers/sequencer.ts'
import { createDatabase } from '#test/databases.ts'

let sql: Sql
let end: () => Promise<void>

beforeAll(async () => {
  const { url, drop } = await createDatabase()
  sql = connectDatabase(url, { max: 4, application_name: 'test' })
  end = async () => {
    await sql.end()
    await drop()
  }
})
afterAll(async () => await end())
beforeEach(async () => {
  await sql`truncate event_outbox, unsequenced_events`
})

function openSequencer(connection: Sql = sql) {
  type Arguments = Parameters<typeof createSequencer>
  const queue = { publish: () => {} }
  const performer = { idleFor: () => 0 }
  const context = { sql: connection } as Arguments[0]
  return createSequencer(context, { queue, performer } as unknown as Arguments[1], () => {})
}

const write = (db: Sql | Tx, tenant_id: string, type: string, age = '0 s') => db`
  insert into events (tenant_id, type, subject_id, data, created_at)
  values (${tenant_id}, ${type}, ${tenant_id}, '{}', now() - ${age}::interval)`

async function feedOf(tenant_id: string): Promise<string[]> {
  const entries = await sql<{ type: string }[]>`
    select type from feed_entries where tenant_id = ${tenant_id} order by sequence`
  return entries.map(({ type }) => type)
}

const countWaiting = async () => (await sql`select from event_outbox`).count

/** Runs until the sequencer reads only recent rows, unless events or transactions prevent it. Returns the clock. */
async function untilRecentOnly(sequencer: ReturnType<typeof openSequencer>): Promise<Mock<() => number>> {
  const now = vi.spyOn(performance, 'now').mockReturnValue(1_000_000)
  onTestFinished(() => now.mockRestore())
  await sequencer.sequence()
  now.mockReturnValue(1_002_000)
  await sequencer.sequence()
  return now
}

test('most runs read only recent rows; the whole outbox is read every half a minute', async () => {
  const sequencer = openSequencer()
  const now = await untilRecentOnly(sequencer)
  const tenant_id = newId()
  await write(sql, tenant_id, 'payment.created', '2 minutes')
  await write(sql, tenant_id, 'payment.canceled')
  await sequencer.sequence()
  expect(await feedOf(tenant_id)).toEqual(['payment.canceled'])
  for (const at of [1_040_000, 1_042_000]) {
    now.mockReturnValue(at)
    await sequencer.sequence()
  }
  expect(await feedOf(tenant_id)).toEqual(['payment.canceled', 'payment.created'])
})

test.each([
  ['on another server', () => ({ server: '1.5 0' })],
  ['after a switch', ({ server }: OpenWrites) => ({ server: server.replace(/ \d+$/, ' 999') })],
  ['while the clock is behind its earlier time', ({ at_s }: OpenWrites) => ({ at_s: at_s + 60 })],
])('%s, the whole outbox is read in every run', async (_, before) => {
  let is_before = true
  const connection = ((strings: TemplateStringsArray, ...values: never[]) => {
    const answer = sql<OpenWrites[]>(strings, ...values)
    if (!is_before || !strings.join('').includes('pg_locks')) return answer
    return answer.then((rows) => rows.map((row) => ({ ...row, ...before(row) })))
  }) as unknown as Sql
  const sequencer = openSequencer(connection)
  await untilRecentOnly(sequencer)
  is_before = false
  for (let run = 0; run < 2; run++) {
    const tenant_id = newId()
    await write(sql, tenant_id, 'payment.created', '2 minutes')
    await write(sql, tenant_id, 'payment.canceled')
    await sequencer.sequence()
    expect(await feedOf(tenant_id)).toEqual(['payment.created', 'payment.canceled'])
  }
})

test('while the whole outbox cannot be read in time, the recent rows stay few', async () => {
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  let at_s = 1_000
  const answer = () => Promise.resolve([{ writers: [], at_s, server: '1' }])
  const reach = createOutboxReach(answer as unknown as Sql)
  /** Runs at this time, in seconds. A run that reads all is complete only the first time. */
  const runAt = async (seconds: number) => {
    at_s = seconds
    clock.mockReturnValue(seconds * 1_000)
    const { since_s } = await reach.next()
    reach.ran(since_s > -Infinity || seconds < 1_010, since_s > -Infinity ? 5 : 12_000)
    return since_s
  }
  expect([await runAt(1_000), await runAt(1_001), await runAt(1_002)]).toEqual([-Infinity, -Infinity, 995])
  const ages_s: number[] = []
  for (let seconds = 1_003; seconds < 2_400; seconds++) ages_s.push(seconds - (await runAt(seconds)))
  expect(ages_s.filter((age_s) => age_s === Infinity)).toHaveLength(3)
  expect(ages_s.filter((age_s) => age_s >= 30 && age_s < Infinity)).toEqual([])
})

test('an event that becomes visible late is sequenced before later events of its resource', async () => {
  const sequencer = openSequencer()
  const tenant_id = newId()
  await sql.begin(async (tx) => {
    // As a commit that waits for a standby.
    await write(tx, tenant_id, 'payment.created', '2 minutes')
    await untilRecentOnly(sequencer)
    await sequencer.sequence()
  })
  await write(sql, tenant_id, 'payment.canceled')
  await sequencer.sequence()
  expect(await feedOf(tenant_id)).toEqual(['payment.created', 'payment.canceled'])
})

test('a backlog of many tenants is sequenced in consecutive runs, before later events', async () => {
  await sql`
    insert into events (tenant_id, type, subject_id, data, created_at)
    select uuidv7(), 'payment.created', uuidv7(), '{}', now() - interval '2 minutes' from generate_series(1, 9000)`
  const sequencer = openSequencer()
  await untilRecentOnly(sequencer)
  expect(await countWaiting()).toBeGreaterThan(0)
  await sequencer.sequence()
  expect(await countWaiting()).toBe(0)
})

test('many events are sequenced although the statistics are those of an empty table with pages', async () => {
  const tenant_id = newId()
  const writeMany = () => sql`
    insert into events (tenant_id, type, subject_id, data)
    select ${tenant_id}, 'customer.updated', uuidv7(), '{}' from generate_series(1, 20000)`
  const sequencer = openSequencer()
  await writeMany()
  while ((await countWaiting()) > 0) await sequencer.sequence()
  await sql`vacuum (analyze, truncate off) event_outbox`
  const [statistics] = await sql`
    select reltuples::integer as rows, relpages > 0 as has_pages from pg_class where relname = 'event_outbox'`
  expect(statistics).toEqual({ rows: 0, has_pages: true })
  await writeMany()
  while ((await countWaiting()) > 0) await sequencer.sequence()
  expect(await feedOf(tenant_id)).toHaveLength(40_000)
})

test('processes of the previous release sequence events, and their own events come first', async () => {
  const tenant_id = newId()
  await sql`
    insert into events (tenant_id, type, subject_id, data, sequenced)
    values (${tenant_id}, 'payment.authorized', ${tenant_id}, '{}', false)`
  await write(sql, tenant_id, 'payment.captured')
  for (let run = 0; run < 2; run++) await sql`select * from sequence_events(100)`
  expect(await feedOf(tenant_id)).toEqual(['payment.authorized', 'payment.captured'])
  expect(await sql`select * from sequence_events(100)`).toHaveLength(0)
})
