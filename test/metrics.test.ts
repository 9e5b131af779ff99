// Each metric of a real process moves with what it measures.
import postgres from 'postgres'
import { afterAll, describe, expect, onTestFinished } from 'vitest'
import { COMMIT, VERSION } from '#core/version.ts'
import { createNextPartition } from '#domain/history.ts'
import { freePort } from '#start/ports.ts'
import { createClient, type Answer } from '#test/client.ts'
import { createEvent, LOOPBACK, openHook, registerEndpoint } from '#test/deliveries.ts'
import { sequenceAllEvents } from '#test/feed.ts'
import { startMeasuredPart, type Measured } from '#test/metrics.ts'
import { metricNames, metricsPage } from '#test/metrics-page.ts'
import { ASYNC, createPayment } from '#test/payments.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'
import { createHolderLabels } from '#workers/recurring/database-gauges.ts'

const test = testIn({ parts: ['api'], env: LOOPBACK })

test('docs/guides/metrics.md lists every metric (npx vitest run test/metrics.test.ts -u updates it)', async () => {
  const { served, listed } = metricNames()
  expect(listed.toSorted()).toEqual(served.toSorted())
  await expect(metricsPage()).toMatchFileSnapshot('../docs/guides/metrics.md')
})

describe('the API', () => {
  let api: Measured
  let url: string

  async function start(world: World, env: Record<string, string>): Promise<void> {
    const port = String(await freePort('127.0.0.1'))
    api = await startMeasuredPart('api', { ...world.env, ...env, API_PORT: port })
    url = `http://127.0.0.1:${port}`
    onTestFinished(() => api.stop())
  }

  test('reports its build and the reference times of statements', async ({ world }) => {
    await start(world, {})
    const build = { version: VERSION, commit: COMMIT, node: process.version }
    expect(COMMIT).toMatch(/^[0-9a-f]{40}$/)
    expect(await api.read('sluice_build_info', build)).toBe(1)
    expect(await api.read('sluice_statement_reference_seconds', { step: 'claim' })).toBeGreaterThan(0)
  })

  test('counts the requests that each limit refuses', async ({ world }) => {
    await start(world, { RATE_LIMIT_BURST: '3', RATE_LIMIT_RPS: '1' })
    const { key } = await world.clientOf()
    const limited = (reason: string) => api.read('sluice_requests_limited_total', { reason })
    expect(await limited('key')).toBeUndefined()
    const client = createClient(url, key)
    for (let nth = 0; nth < 5; nth++) await client.get('/v1/customers')
    expect(await limited('key')).toBeGreaterThan(0)
    for (let nth = 0; nth < 30; nth++) await createClient(url, `sk_live_acme_${nth}`).get('/v1/customers')
    expect(await limited('invalid_keys')).toBeGreaterThan(0)
    expect(await limited('body_memory')).toBeUndefined()
  })

  test('reports the connections of its pools and how long statements wait for one', async ({ world }) => {
    await start(world, { DATABASE_POOL: '4' })
    const guess = (nth: number) => `sk_live_acme_${String(nth).padStart(32, '0')}`
    const limit = await api.read('sluice_pool_connections', { pool: 'main' })
    expect(limit).toBeGreaterThan(0)
    let requests: Promise<Answer>[] = []
    await world.sql.begin(async (tx) => {
      // Each lookup of an unknown key is a statement.
      await tx`lock table api_keys in access exclusive mode`
      requests = Array.from({ length: 12 }, (_, nth) => createClient(url, guess(nth)).get('/v1/customers'))
      await api.until('sluice_pool_connections', { pool: 'main', state: 'busy' }, (value) => value === limit)
    })
    expect((await Promise.all(requests)).map(({ status }) => status)).toEqual(Array(12).fill(401))
    await api.until('sluice_pool_connections', { pool: 'main', state: 'busy' }, (value) => value === 0)
    expect(await api.read('sluice_pool_wait_seconds_sum', { pool: 'main' })).toBeGreaterThan(0)
    expect(await api.read('sluice_pool_connections', { pool: 'lists' })).toBe(2)
  })
})

describe('a worker', () => {
  let worker: Measured
  // The deliveries are served by no worker: events get no sequence, and deliveries are not sent.
  test.beforeAll(async ({ world }) => {
    while ((await createNextPartition(world.sql)) !== null);
    const [gap] = await world.sql<{ name: string }[]>`
      select name from partitions where parent = 'job_history' and from_time > now() order by from_time offset 1 limit 1`
    await world.sql`drop table ${world.sql(gap!.name)}`
    worker = await startMeasuredPart('worker', {
      ...world.env,
      QUEUES: 'payments,notifications,messages',
    })
  })
  afterAll(() => worker?.stop())

  test('reports for how long partitions exist, up to the first gap', async () => {
    const ahead = (table: string) => worker.read('sluice_partitions_ahead_days', { table })
    await worker.until(
      'sluice_partitions_ahead_days',
      { table: 'job_history' },
      (value) => value !== undefined,
    )
    expect(await ahead('notification_history')).toBeGreaterThan(21)
    expect(await ahead('job_history')).toBeLessThanOrEqual(14)
    expect(await ahead('job_history')).toBeGreaterThan(0)
  })

  test('counts the waiting, running and parked jobs of each queue', async ({ world }) => {
    const { sql, tenant_id } = world
    await sql`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
      select gen_random_uuid(), ${tenant_id}, 'ai', 'ai_task.run', '{}', 25, run_at
      from (values (now()), (now() + interval '1 hour'), ('infinity')) waiting(run_at)`
    await sql`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, lease_token, lease_until, worker,
        started_at)
      values (gen_random_uuid(), ${tenant_id}, 'ai', 'ai_task.run', '{}', 25, 'running', gen_random_uuid(),
        now() + interval '1 hour', 'elsewhere/1', now())`
    onTestFinished(async () => void (await sql`delete from jobs where queue = 'ai'`))
    await worker.until('sluice_jobs_waiting', { queue: 'ai' }, (value) => value === 2)
    await worker.until('sluice_jobs_running', { queue: 'ai' }, (value) => value === 1)
    await worker.until('sluice_jobs_parked', { queue: 'ai' }, (value) => value === 1)
    expect(await worker.read('sluice_jobs_waiting', { queue: 'messages' })).toBe(0)
  })

  test('counts attempts that did not succeed, by provider, operation and outcome', async ({ world }) => {
    const name = 'sluice_failed_attempts_total'
    const labels = { provider: 'stripe', operation: 'authorize' }
    expect(await worker.read(name, labels)).toBeUndefined()
    await createPayment(world.client, { payment_method: 'pm_card_chargeDeclined' }, ASYNC)
    await worker.until(name, { ...labels, outcome: 'declined' }, (value) => value === 1)
    const fault = await world.provider('stripe').fault({ fault: 'refuse_401', times: 1 })
    onTestFinished(() => fault.remove())
    await createPayment(world.client, {}, ASYNC)
    await worker.until(name, { ...labels, outcome: 'misconfigured' }, (value) => value === 1)
  })

  test('reports the age of the oldest event without a sequence, and late deliveries', async ({ world }) => {
    const { client, sql } = world
    const hook = await openHook()
    onTestFinished(() => hook.close())
    const endpoint = await registerEndpoint(client, { url: hook.url, types: ['customer.*'] })
    await createEvent(client)
    await worker.until('sluice_oldest_unsequenced_event_seconds', {}, (value) => (value ?? 0) > 0)
    await sequenceAllEvents(sql)
    await worker.until('sluice_oldest_unsequenced_event_seconds', {}, (value) => value === 0)

    expect(await worker.read('sluice_deliveries_late')).toBe(0)
    await sql`
      update webhook_due set due_at = now() - interval '2 minutes' where endpoint_id = ${endpoint.id}`
    await worker.until('sluice_deliveries_late', {}, (value) => value === 1)
    expect(await worker.read('sluice_oldest_due_delivery_seconds')).toBeGreaterThanOrEqual(120)
    // Nothing is late while it waits.
    await sql`update lineage set hold = 'all'`
    await worker.until('sluice_deliveries_late', {}, (value) => value === 0)
    await sql`update lineage set hold = null`
    await worker.until('sluice_deliveries_late', {}, (value) => value === 1)
    // What waited during a seal is late a minute after the seal has ended.
    await sql`update lineage set unsealed_at = now()`
    await worker.until('sluice_deliveries_late', {}, (value) => value === 0)
    expect(await worker.read('sluice_oldest_due_delivery_seconds')).toBeLessThan(60)
    await sql`update lineage set unsealed_at = null`
    expect(hook.arrived).toEqual([])
  })

  test('names our connections that hold the oldest snapshot or writing transaction, and the roles of other sessions', async ({
    world,
  }) => {
    const [snapshot, writing] = [
      'sluice_database_oldest_snapshot_seconds',
      'sluice_database_oldest_writing_transaction_seconds',
    ]
    // Not the pool of the product, which replaces connections that a busy machine answers late.
    const open = (url: string, application_name: string) => {
      const sql = postgres(url, { max: 1, connection: { application_name } })
      onTestFinished(() => sql.end())
      return sql
    }
    const [ours, reader] = ['sluice-audit', 'sluice_test_reader']
    const owner_url = world.env['DATABASE_URL']!
    // The worker may not see the times of the sessions of another user.
    await open(owner_url, ours).begin('isolation level repeatable read', async (tx) => {
      await tx`select from customers limit 1`
      // Every user may choose the name of a connection of ours.
      await open(urlAs('reader', owner_url), 'sluice-worker').begin(async (writer) => {
        await writer`select pg_current_xact_id()`
        await worker.until(snapshot, { holder: ours }, (value) => (value ?? 0) > 5)
        await worker.until(writing, { holder: reader }, (value) => (value ?? 0) > 5)
        expect(await worker.read(writing, { holder: ours })).toBeUndefined()
      })
    })
    await worker.until(snapshot, { holder: ours }, (value) => value === undefined)
    await worker.until(writing, { holder: reader }, (value) => value === undefined)
  })

  test('gives a label of their own to 30 holders, and one label to all others', () => {
    const labelOf = createHolderLabels()
    const names = Array.from({ length: 1000 }, (_, nth) => `role ${nth}`)
    expect(new Set(names.map(labelOf)).size).toBe(31)
    expect([labelOf('role 29'), labelOf('role 30')]).toEqual(['role 29', 'other'])
  })

  test('reports its pools by name', async () => {
    for (const pool of ['main', 'leases', 'recurring']) {
      expect(await worker.read('sluice_pool_connections', { pool })).toBeGreaterThan(0)
      expect(await worker.read('sluice_pool_wait_seconds_count', { pool })).toBeGreaterThan(0)
    }
  })
})
