// What the passes over test clocks read: nothing of tenants whose clock was not moved, and of others what is due.
import postgres from 'postgres'
import { describe, expect, onTestFinished } from 'vitest'
import { newId } from '#core/ids.ts'
import { connectDatabase } from '#core/pool.ts'
import type { Sql, Tx } from '#core/db.ts'
import {
  findAbandonedPaymentsInTestMode,
  findExpiredHoldsInTestMode,
  warnOfExpiryInTestMode,
} from '#domain/payments/expiry.ts'
import { deadlineRulesOf } from '#domain/test-clocks/deadlines.ts'
import { findClocksWithWork, moveTestClock } from '#domain/test-clocks/move.ts'
import { advanceTestClock } from '#domain/test-clocks/test-clock.ts'
import { cancelAbandonedInTestMode } from '#domain/verifications/cancel.ts'
import { fullScansOf, genericPlan, injectStatistics, readIndexes, scansOf, STATISTICS } from '#test/plans.ts'
import { startStatementTap } from '#test/statement-tap.ts'
import { DAY_MS } from '#test/test-clocks.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ queue: 'postgres', parts: [] })

const TABLES = ['jobs', 'webhook_due', 'payments', 'verifications']
/** The rows of each tenant in each of these tables. */
const ROWS = 500
const limits = { limit: 500, sandbox_due_at: null }

/** A tenant whose deadlines are 60 days ahead. */
async function createTenant(world: World, tenant: string, mode: 'live' | 'test') {
  const { sql } = world
  const { tenant_id } = await world.clientOf({ tenant, mode })
  const numbers = sql`generate_series(1, ${ROWS}) nth`
  const later = sql`now() + interval '60 days' + nth * interval '1 second'`
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at, priority)
    select gen_random_uuid(), ${tenant_id}, 'messages', 'message.send_email', '{}', 1, ${later}, nth % 3 from ${numbers}`
  await sql`
    insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at)
    select ${tenant_id}, ${newId()}, nth, gen_random_uuid(), now(), ${later}, now() from ${numbers}`
  await sql`
    insert into payments (tenant_id, id, idempotency_key, status, amount_minor, currency, method, processor,
      capture_before, authorized_at)
    select ${tenant_id}, gen_random_uuid(), 'p-' || nth, 'authorized', 100, 'USD', 'card', 'stripe', ${later}, now()
    from ${numbers}`
  return tenant_id
}

/** Runs `work` in a transaction, and returns the number of rows and index entries that it reads of each table. */
async function readsOf(sql: Sql, work: (tx: Sql) => Promise<unknown>): Promise<Record<string, number>> {
  const rows = await sql.begin(async (tx) => {
    const count = () => tx<{ name: string; reads: number }[]>`
      select t.name, (pg_stat_get_xact_tuples_returned(t.name::regclass) + coalesce((
        select sum(pg_stat_get_xact_tuples_returned(x.indexrelid)) from pg_index x
        where x.indrelid = t.name::regclass), 0))::integer as reads
      from unnest(${TABLES}::text[]) t (name)`
    const before = await count()
    // A transaction within the transaction is a savepoint.
    const begin = (inner: (inner_tx: Tx) => Promise<unknown>) => tx.savepoint(inner)
    await work(Object.assign(tx, { begin }) as never)
    return (await count()).map(({ name, reads }, nth) => [name, reads - before[nth]!.reads] as const)
  })
  return Object.fromEntries(rows)
}

const clock_offset = '10 days'
const NOTHING = { jobs: 0, webhook_due: 0, payments: 0, verifications: 0 }

test('a pass reads no row of a tenant whose clock was not moved, and of another tenant what is due', async ({
  world,
}) => {
  const { sql } = world
  const rules = deadlineRulesOf(world.config, { processor_follows: true })
  await createTenant(world, 'reads-live', 'live')
  await createTenant(world, 'reads-unmoved', 'test')
  await createTenant(world, 'reads-none', 'test')
  const moved = await createTenant(world, 'reads-moved', 'test')
  await sql`analyze`
  expect(await readsOf(sql, (tx) => findClocksWithWork(tx))).toEqual(NOTHING)

  await sql`insert into test_clocks (tenant_id, clock_offset) values (${moved}, '10 days')`
  const found = await findClocksWithWork(sql)
  expect(found).toEqual([
    {
      tenant_id: moved,
      clock_offset: '10 days',
      offset_ms: 10 * DAY_MS,
      is_advancing: false,
      resources_due: true,
    },
  ])
  // The first pass reads the open payments of this tenant, and remembers that none of them is due.
  const first = await readsOf(sql, (tx) =>
    moveTestClock(tx, { tenant_id: moved, clock_offset }, rules, limits),
  )
  expect(first['payments']).toBeGreaterThanOrEqual(ROWS)
  expect(first['payments']).toBeLessThanOrEqual(3 * ROWS)
  const next = await readsOf(sql, async (tx) => expect(await findClocksWithWork(tx)).toEqual([]))
  expect(next).toMatchObject({ payments: 0, verifications: 0 })
  // The index of jobs has a priority before the due time, and that of deliveries an endpoint.
  expect(next['jobs']).toBeLessThan(20)
  expect(next['webhook_due']).toBeLessThan(20)

  await sql`
    update jobs set run_at = now() + interval '9 days' where id in (
      select id from jobs where tenant_id = ${moved} order by run_at limit 3)`
  expect(await findClocksWithWork(sql)).toMatchObject([{ tenant_id: moved, resources_due: false }])
  const due = await readsOf(sql, (tx) => moveTestClock(tx, { tenant_id: moved, clock_offset }, rules, limits))
  expect(due).toMatchObject({ payments: 0, verifications: 0 })
  expect(due['jobs']).toBeLessThan(30)
  const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`
    select count(*)::integer from jobs where tenant_id = ${moved} and run_at <= now()`
  expect(count).toBe(3)
  expect(await findClocksWithWork(sql)).toEqual([])
})

test('payments of a clock that does not move are read at their deadline, and at the latest after an hour', async ({
  world,
}) => {
  const { sql } = world
  const rules = deadlineRulesOf(world.config, { processor_follows: true })
  const tenant_id = await createTenant(world, 'reads-later', 'test')
  await sql`insert into test_clocks (tenant_id, clock_offset) values (${tenant_id}, '10 days')`
  /** Seconds of the clock until its payments are read. */
  const readsIn = async () => {
    await moveTestClock(sql, { tenant_id, clock_offset }, rules, limits)
    const [clock] = await sql<{ wait_s: number }[]>`
      select round(extract(epoch from resources_due_at - now() - clock_offset) / 60)::integer * 60 as wait_s
      from test_clocks where tenant_id = ${tenant_id}`
    await sql`update test_clocks set resources_due_at = null where tenant_id = ${tenant_id}`
    return clock!.wait_s
  }
  expect(await readsIn()).toBe(3600)
  const expireIn = (after: string) => sql`
    update payments set capture_before = now() + interval '10 days' + ${after}::interval
    where tenant_id = ${tenant_id} and id = (select id from payments where tenant_id = ${tenant_id} limit 1)`
  // The event of an expiring hold comes a day before its end.
  await expireIn('1 day 10 minutes')
  expect(await readsIn()).toBe(600)
  await expireIn('-1 day')
  expect(await readsIn()).toBe(0)
  await sql`delete from test_clocks where tenant_id = ${tenant_id}`
})

describe('no plan of a pass reads other tenants', () => {
  test.for(Object.entries(STATISTICS))('with statistics %s', async ([_name, statistics], { world }) => {
    const { sql, config } = world
    const rules = deadlineRulesOf(config, { processor_follows: true })
    const { tenant_id } = await world.clientOf({ mode: 'test' })
    const tap = await startStatementTap(config.DATABASE_URL!)
    const tapped = connectDatabase(tap.url, { max: 1, application_name: 'passes' })
    onTestFinished(() => tap.close())
    onTestFinished(() => tapped.end())
    await sql`insert into test_clocks (tenant_id, clock_offset) values (${tenant_id}, '10 days')`
    const tenant = { tenant_id, processor_follows: true }
    await findClocksWithWork(tapped)
    await warnOfExpiryInTestMode(tapped, tenant, 500)
    await findExpiredHoldsInTestMode(tapped, tenant, 500)
    await findAbandonedPaymentsInTestMode(tapped, tenant, rules.action_ttl_s, 500)
    await cancelAbandonedInTestMode(tapped, tenant_id, rules.verification_ttl_days, 500)
    await moveTestClock(tapped, { tenant_id, clock_offset }, rules, limits)
    await advanceTestClock(sql, tenant_id, new Date(Date.now() + 20 * DAY_MS).toISOString())
    await moveTestClock(tapped, { tenant_id, clock_offset }, rules, limits)
    await sql`delete from test_clock_steps where tenant_id = ${tenant_id}`
    await sql`delete from test_clocks where tenant_id = ${tenant_id}`

    const owner = postgres(config.DATABASE_URL!, { max: 1, onnotice: () => {} })
    onTestFinished(() => owner.end())
    await injectStatistics(owner, statistics)
    const session = connectDatabase(config.DATABASE_URL!, { max: 1, application_name: 'test' })
    onTestFinished(() => session.end())
    const indexes = await readIndexes(owner)
    const statements = tap
      .statements()
      .filter(({ text }) => /^\s*(select|with|insert|update|delete)\b/.test(text))
    expect(statements.length).toBeGreaterThan(8)
    const found: string[] = []
    for (const statement of statements) {
      const plan = await genericPlan(session, statement)
      found.push(...fullScansOf(plan, indexes).map((scan) => `${scan}\n${statement.text}`))
      for (const { name, table, condition } of scansOf(plan, indexes))
        if (TABLES.includes(table) && !/\btenant_id\b|\(id = /.test(condition))
          found.push(`${name}: ${condition}\n${statement.text}`)
    }
    expect(found).toEqual([])
  })
})
