// What a tenant in test mode created is dropped after 90 days, and its idempotency keys may be used anew.
import { expect, onTestFinished } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { newId, SYSTEM_TENANT_ID, SYSTEM_TWIN_ID } from '#core/ids.ts'
import { deleteOldKeys } from '#domain/idempotency.ts'
import { dropTestData, dropTestNotifications, listTestTenants } from '#domain/test-data.ts'
import { freshKey, type Client } from '#test/client.ts'
import { ASYNC, createPayment } from '#test/payments.ts'
import { accountOf, payOut, recipient } from '#test/payouts.ts'
import { urlAs } from '#test/users.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

type Tenant = Client & { tenant_id: string }
type ModesWorld = World & { twin: Tenant; live: Tenant; worker: Sql }

/** No worker runs, so the rows stay as the tests write them. */
async function createModesWorld(): Promise<ModesWorld> {
  const world = await createWorld({ parts: ['api'], env: { STRIPE_TEST_SECRET_KEY: 'sk_test_of_the_twins' } })
  const worker = connectDatabase(urlAs('worker', world.config.DATABASE_URL!), {
    max: 1,
    application_name: 'test-worker',
  })
  return {
    ...world,
    live: Object.assign(world.client, { tenant_id: world.tenant_id }),
    twin: await world.clientOf({ tenant: 'acme', mode: 'test' }),
    worker,
    async close() {
      await worker.end()
      await world.close()
    },
  }
}

const test = testIn(createModesWorld)

/** The tables in which a payment and its customer leave rows. */
const TABLES = [
  'customers',
  'payments',
  'ledger_transfers',
  'events',
  'feed_entries',
  'jobs',
  'drifts',
  'message_attachments',
  'messages',
]

async function countRows({ sql }: World, tenant_id: string): Promise<Record<string, number>> {
  const counts = await Promise.all(
    TABLES.map(async (table) => {
      const [row] = await sql<{ count: number }[]>`
        select count(*)::integer as count from ${sql(table)} where tenant_id = ${tenant_id}`
      return [table, row!.count] as const
    }),
  )
  return Object.fromEntries(counts)
}

/** A customer with a payment, a transfer, a drift, an email with an attachment, and positions of the events. */
async function createRows({ sql }: World, client: Tenant, key: string): Promise<void> {
  const { tenant_id } = client
  const customer = (await client.post('/v1/customers', { idempotency_key: key, name: 'Ada' })).body
  const created = await createPayment(client, { idempotency_key: key, customer_id: customer.id }, ASYNC)
  expect(created.status).toBe(202)
  await sql`
    insert into ledger_transfers (tenant_id, id, kind, subject_id, debit_account, credit_account, currency,
      amount_minor, created_at)
    values (${tenant_id}, ${newId()}, 'capture', ${created.body.id}, 'processor_clearing', 'fees', 'USD', 1000, now())`
  await sql`
    insert into drifts (tenant_id, id, subject, subject_id, payment_id, state, ours, since)
    values (${tenant_id}, ${newId()}, 'payment', ${created.body.id}, ${created.body.id}, 'differs', '{}', now())`
  const message_id = newId()
  await sql`
    insert into messages (tenant_id, id, idempotency_key, channel, status, envelope, content, recipients, provider)
    values (${tenant_id}, ${message_id}, ${key}, 'email', 'queued', 'sealed', 'sealed',
      ${sql.json([{ address: 'a' }])}, 'smtp')`
  await sql`
    insert into message_attachments (tenant_id, message_id, nth, content)
    values (${tenant_id}, ${message_id}, 0, 'sealed')`
  await sql`
    insert into feed_entries (tenant_id, sequence, event_id, type, created_at)
    select tenant_id, row_number() over (order by created_at), id, type, created_at from events
    where tenant_id = ${tenant_id}`
}

/** Moves the creation of all rows of these tables 91 days back. */
async function age({ sql }: World, tenant_id: string, tables: readonly string[]): Promise<void> {
  for (const table of tables) {
    if (table === 'message_attachments' || table === 'ledger_transfers') continue
    await sql`
      update ${sql(table)} set created_at = created_at - interval '91 days' where tenant_id = ${tenant_id}`
  }
}

async function drop({ worker }: ModesWorld, tenant_id: string): Promise<void> {
  for (let more = true; more;) more = await dropTestData(worker, tenant_id, 2)
}

test('data of a twin is dropped 90 days after its creation, and never that of its tenant', async ({
  world,
}) => {
  const { live, twin, worker } = world
  const key = freshKey()
  for (const client of [live, twin]) await createRows(world, client, key)
  const all = await countRows(world, live.tenant_id)
  expect(Object.values(all).every((count) => count > 0)).toBe(true)
  expect(await countRows(world, twin.tenant_id)).toEqual(all)
  await drop(world, twin.tenant_id)
  expect(await countRows(world, twin.tenant_id)).toEqual(all)

  // The customer is old, and its payment is not.
  await age(world, twin.tenant_id, ['customers', 'messages'])
  await drop(world, twin.tenant_id)
  expect(await countRows(world, twin.tenant_id)).toEqual({ ...all, messages: 0, message_attachments: 0 })

  await age(world, live.tenant_id, TABLES)
  await age(
    world,
    twin.tenant_id,
    TABLES.filter((table) => table !== 'customers' && table !== 'messages'),
  )
  await drop(world, twin.tenant_id)
  expect(await countRows(world, twin.tenant_id)).toEqual(
    Object.fromEntries(TABLES.map((table) => [table, 0])),
  )
  expect(await countRows(world, live.tenant_id)).toEqual(all)
  for (const dropLive of [
    () => dropTestData(worker, live.tenant_id, 10),
    () => worker`select drop_test_rows('payments', ${live.tenant_id}, 10)`,
    () => worker`select drop_test_rows('api_keys', ${twin.tenant_id}, 10)`,
    () => worker`select drop_test_rows('nowhere', ${twin.tenant_id}, 10)`,
  ])
    await expect(dropLive()).rejects.toMatchObject({ code: '42501' })
  expect(await listTestTenants(worker, null, 10)).toEqual([SYSTEM_TWIN_ID, twin.tenant_id])
  expect(await listTestTenants(worker, twin.tenant_id, 10)).toEqual([])
})

test('a row with an open job or with reserved money stays until that ends', async ({ world }) => {
  const { sql } = world
  const client = await world.clientOf({ tenant: 'unfinished', mode: 'test' })
  const { tenant_id } = client
  const payment = (await createPayment(client, {}, ASYNC)).body
  await sql`
    insert into ledger_accounts (tenant_id, currency, name, balance_minor)
    values (${tenant_id}, 'USD', 'available', 500)
    on conflict (tenant_id, currency, name) do update set balance_minor = 500`
  const payout = (await payOut(client, await recipient(client), {}, ASYNC)).body
  const rows = async () => {
    const [row] = await sql`
      select array(select id from payments where tenant_id = ${tenant_id}) as payments,
        array(select id from payouts where tenant_id = ${tenant_id}) as payouts,
        array(select resource_id from jobs where tenant_id = ${tenant_id} order by created_at) as jobs`
    return { ...row! }
  }
  const all = { payments: [payment.id], payouts: [payout.id], jobs: [payment.id, payout.id] }
  await age(world, tenant_id, ['payments', 'payouts', 'recipients'])
  await drop(world, tenant_id)
  expect(await rows()).toEqual(all)

  // The jobs are as old.
  await age(world, tenant_id, ['jobs'])
  await drop(world, tenant_id)
  expect(await rows()).toEqual({ payments: [], payouts: [payout.id], jobs: [payout.id] })

  expect((await client.post(`/v1/payouts/${payout.id}/cancel`)).body).toMatchObject({ status: 'canceled' })
  expect(await accountOf(world, tenant_id)).toEqual({ balance: 500, reserved: 0 })
  await drop(world, tenant_id)
  expect(await rows()).toMatchObject({ payouts: [] })
})

test('an idempotency key of test mode may be used anew after that', async ({ world }) => {
  const { sql, twin, live } = world
  const key = freshKey()
  const create = async (client: Tenant, name: string) =>
    await client.post('/v1/customers', { idempotency_key: key, name })
  for (const client of [live, twin]) expect((await create(client, 'Ada')).status).toBe(201)
  for (const { tenant_id } of [live, twin]) await age(world, tenant_id, ['customers', 'idempotency_keys'])
  while ((await deleteOldKeys(sql, 100)) > 0);
  // The row still has the key.
  expect((await create(twin, 'Grace')).body.error).toMatchObject({ code: 'idempotency_key_reused' })
  await drop(world, twin.tenant_id)
  const anew = await create(twin, 'Grace')
  expect([anew.status, anew.headers.get('idempotent-replayed'), anew.body.name]).toEqual([201, null, 'Grace'])
  expect((await create(live, 'Grace')).body.error).toMatchObject({ code: 'idempotency_key_reused' })
})

test('notifications of test mode that no row ever got are dropped with their jobs', async ({ world }) => {
  const { sql, worker } = world
  onTestFinished(async () => {
    await sql`delete from notifications`
  })
  const insert = async (livemode: boolean, age_days: number) => {
    const id = newId()
    await sql`
      insert into notifications (id, provider, event_id, livemode, kind, payload, state, reason, received_at, parked_at)
      select ${id}, 'stripe', ${id}, ${livemode}, 'payout.paid', '{}', 'parked', 'poison', t, t
      from (select now() - ${age_days} * interval '1 day' as t) t`
    await sql`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
      values (${id}, ${livemode ? SYSTEM_TENANT_ID : SYSTEM_TWIN_ID}, 'notifications', 'notification.apply', '{}', 25, 'infinity')`
    return id
  }
  const kept = [await insert(true, 91), await insert(false, 89)]
  await insert(false, 91)
  await insert(false, 92)
  expect(await dropTestNotifications(worker, 1)).toBe(1)
  expect(await dropTestNotifications(worker, 10)).toBe(1)
  expect(await dropTestNotifications(worker, 10)).toBe(0)
  const left = await sql<{ id: string }[]>`
    select n.id from notifications n join jobs j on j.id = n.id where j.name = 'notification.apply'`
  expect(new Set(left.map(({ id }) => id))).toEqual(new Set(kept))
})

test('the steps of a clock are dropped after 90 days, except for the last one before, which younger rows need', async ({
  world,
}) => {
  const { sql, twin } = world
  const { tenant_id } = twin
  await sql`insert into test_clocks (tenant_id, clock_offset) values (${tenant_id}, '5 days')`
  await sql`
    insert into test_clock_steps (tenant_id, at, clock_offset)
    select ${tenant_id}, now() - days * interval '1 day', (201 - days) * interval '1 minute'
    from unnest('{200,150,120,91,89,1}'::integer[]) days`
  const offsetAt = async (days: number) => {
    const [row] = await sql<{ minutes: number }[]>`
      select extract(epoch from clock_offset_at(${tenant_id}, now() - ${days} * interval '1 day'))::float8 / 60 as minutes`
    return row!.minutes
  }
  const before = [await offsetAt(90), await offsetAt(50), await offsetAt(0)]
  await drop(world, tenant_id)
  const left = await sql<{ days: number }[]>`
    select extract(day from now() - at)::integer as days from test_clock_steps where tenant_id = ${tenant_id} order by at`
  expect(left.map(({ days }) => days)).toEqual([91, 89, 1])
  expect([await offsetAt(90), await offsetAt(50), await offsetAt(0)]).toEqual(before)
})
