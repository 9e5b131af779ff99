// Webhook deliveries with concurrent attempts, changes and recoveries, in unusual orders.
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished } from 'vitest'
import { newId } from '#core/ids.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { continueRecovery } from '#domain/deliveries/continue-recovery.ts'
import { sequenceEvents } from '#domain/sequencing.ts'
import type { Client } from '#test/client.ts'
import { createDatabase } from '#test/databases.ts'
import { connectDatabase } from '#core/pool.ts'
import {
  createEvent,
  deliveriesOf,
  makeDeliveriesDue,
  makeDeliveriesDueUntil,
  LOOPBACK,
  registerEndpoint,
  openHook,
  untilArrived,
} from '#test/deliveries.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ env: { ...LOOPBACK, DATABASE_POOL: '8' } })
let client: Client & { tenant_id: string; key_id: string }

async function hookAndEndpoint(world: World, reply?: Parameters<typeof openHook>[0], fields: object = {}) {
  client = await world.clientOf()
  const hook = await openHook(reply)
  onTestFinished(() => hook.close())
  return { hook, endpoint: await registerEndpoint(client, { url: hook.url, ...fields }) }
}

async function awaitDelivery(endpoint_id: string, holds: (delivery: any) => boolean): Promise<any> {
  for (;;) {
    const [delivery] = await deliveriesOf(client, endpoint_id)
    if (delivery !== undefined && holds(delivery)) return delivery
    await sleep(20)
  }
}

const path = (endpoint: { id: string }) => `/v1/webhook_endpoints/${endpoint.id}`
const pauseTenant = async (world: World) => {
  const target = { tenant_id: client.tenant_id }
  await pauseJobs(world.sql, target)
  onTestFinished(async () => await resumeJobs(world.sql, target))
  return async () => await resumeJobs(world.sql, target)
}

describe('concurrent attempts at one delivery', () => {
  test('two attempts that fail at the same time are both in the log, and the delivery is retried', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, (nth) => (nth === 0 ? 500 : 'hold'))
    const { id } = await awaitDelivery(endpoint.id, ({ attempts }) => attempts === 1)
    await client.post(`/v1/webhook_deliveries/${id}/replay`, {})
    await untilArrived(hook, 2)
    await makeDeliveriesDueUntil(world, () => hook.arrived.length >= 3)
    hook.release(500)
    const delivery = await awaitDelivery(endpoint.id, ({ attempts_log }) => attempts_log.length === 3)
    expect(delivery).toMatchObject({ status: 'pending', attempts: 2 })
    expect(await world.sql`select from webhook_due where delivery_id = ${id}`).toHaveLength(1)
    await client.delete(path(endpoint))
  })

  test('a recovery completes if its delivery arrives by another attempt', async ({ world }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, (nth) => (nth === 0 ? 500 : 'hold'))
    await awaitDelivery(endpoint.id, ({ attempts }) => attempts === 1)
    await makeDeliveriesDueUntil(world, () => hook.arrived.length >= 2)
    const since = new Date(Date.now() - 60_000).toISOString()
    const { body } = await client.post(`${path(endpoint)}/recover`, { since })
    hook.release(204)
    await awaitDelivery(endpoint.id, ({ status }) => status === 'delivered')
    let recovery = body
    while (recovery.status !== 'completed')
      recovery = (await client.get(`/v1/webhook_recoveries/${body.id}`)).body
    expect(recovery.found).toBe(recovery.sent)
    expect((await client.post(`${path(endpoint)}/recover`, { since })).status).toBe(202)
  })
})

describe('endpoints', () => {
  test('an endpoint that is disabled and enabled right after its creation receives later events', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(
      world,
      (_nth, { body }) => (body.type === 'customer.created' ? 204 : 500),
      { ordered: true },
    )
    await client.patch(path(endpoint), { status: 'disabled' })
    await client.patch(path(endpoint), { status: 'enabled' })
    await createEvent(client)
    await makeDeliveriesDueUntil(world, () => hook.arrived.at(-1)?.body.type === 'customer.created')
    await world.drain()
    const statuses = (await deliveriesOf(client, endpoint.id)).map(({ status }) => status)
    expect(statuses.filter((status) => status === 'pending')).toEqual([])
  })

  test('an ordered endpoint that is enabled again does not wait for its skipped first delivery', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(
      world,
      (_nth, { body }) => (body.sequence === 1 ? 500 : 204),
      {
        ordered: true,
        types: ['webhook_endpoint.created', 'customer.*'],
      },
    )
    await awaitDelivery(endpoint.id, ({ attempts }) => attempts === 1)
    await world.sql`
      update webhook_due set due_at = now() + interval '20 hours' where endpoint_id = ${endpoint.id}`
    await client.patch(path(endpoint), { status: 'disabled' })
    await client.patch(path(endpoint), { status: 'enabled' })
    await createEvent(client)
    await untilArrived(hook, 2)
    expect(hook.arrived[1]!.body.type).toBe('customer.created')
    expect((await deliveriesOf(client, endpoint.id))[0]).toMatchObject({ status: 'skipped' })
  })

  test('an endpoint that responds 410 to a delivery of a recovery receives no further requests', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 410, {
      max_in_flight: 1,
      types: ['customer.*'],
    })
    await client.patch(path(endpoint), { status: 'disabled' })
    for (let n = 0; n < 20; n++) await createEvent(client)
    await world.drain()
    await client.patch(path(endpoint), { status: 'enabled' })
    const since = new Date(Date.now() - 60_000).toISOString()
    const { body } = await client.post(`${path(endpoint)}/recover`, { since })
    let recovery = body
    while (recovery.status !== 'completed')
      recovery = (await client.get(`/v1/webhook_recoveries/${body.id}`)).body
    expect(recovery).toMatchObject({ found: 20, sent: hook.arrived.length })
    expect(hook.arrived.length).toBeLessThanOrEqual(2)
    expect((await client.get(path(endpoint))).body).toMatchObject({ disabled_reason: 'gone' })
  })

  test('an endpoint that is disabled manually before its 410 response has one event about the disabling', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 'hold', { types: ['customer.*'] })
    await createEvent(client)
    await untilArrived(hook, 1)
    await client.patch(path(endpoint), { status: 'disabled' })
    hook.release(410)
    await awaitDelivery(endpoint.id, ({ status }) => status === 'failed')
    await world.drain()
    const { body: events } = await client.get('/v1/events?type=webhook_endpoint.disabled')
    expect(events.map(({ data }: any) => data.disabled_reason)).toEqual(['manual'])
  })

  test('a deleted endpoint receives no replay and no test that was requested before', async ({ world }) => {
    const { hook, endpoint } = await hookAndEndpoint(world)
    const { id } = await awaitDelivery(endpoint.id, ({ status }) => status === 'delivered')
    const resume = await pauseTenant(world)
    expect((await client.post(`/v1/webhook_deliveries/${id}/replay`, {})).status).toBe(202)
    expect((await client.post(`${path(endpoint)}/test`, {})).status).toBe(202)
    await client.delete(path(endpoint))
    await resume()
    await world.drain()
    expect(hook.arrived).toHaveLength(1)
  })

  test('an endpoint has at most ten open tests and replays, which do not delay its events', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(
      world,
      (_nth, { body }) => (body.sequence === null ? 'hold' : 204),
      { ordered: true, types: ['customer.*'] },
    )
    const answers = []
    for (let n = 0; n < 11; n++) answers.push(await client.post(`${path(endpoint)}/test`, {}))
    expect(answers.map(({ status }) => status)).toEqual([...Array(10).fill(202), 429])
    expect(answers.at(-1)!.body.error.code).toBe('rate_limited')
    await createEvent(client)
    while (hook.arrived.every(({ body }) => body.sequence === null)) await sleep(10)
    hook.release(204)
    await world.drain()
  })

  test('too many concurrent tests and replays are each either accepted or rate limited', async ({
    world,
  }) => {
    const { endpoint } = await hookAndEndpoint(world, () => 204, { types: ['customer.*'] })
    const outcomes: string[] = []
    const postConcurrently = async (at: string) => {
      const answers = await Promise.all(Array.from({ length: 60 }, () => client.post(at, {})))
      for (const { status, body } of answers) outcomes.push(status === 202 ? 'accepted' : body.error.code)
    }
    for (let nth = 0; nth < 4; nth++) await postConcurrently(`${path(endpoint)}/test`)
    const [test_delivery] = await deliveriesOf(client, endpoint.id)
    for (let nth = 0; nth < 4; nth++)
      await postConcurrently(`/v1/webhook_deliveries/${test_delivery.id}/replay`)
    expect([...new Set(outcomes)].toSorted()).toEqual(['accepted', 'rate_limited'])
    await world.drain()
  })

  test('an endpoint that has never responded receives ten concurrent requests', async ({ world }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 'hold', {
      max_in_flight: 100,
      types: ['webhook_endpoint.updated'],
    })
    await world.sql`
      insert into events (tenant_id, id, type, subject_id, data)
      select ${client.tenant_id}, uuidv7(), 'webhook_endpoint.updated', ${endpoint.id}, '{}' from generate_series(1, 30) n`
    await untilArrived(hook, 10)
    const [open] = await world.sql`
      select count(*) as jobs from jobs where resource_id = ${endpoint.id} and finished_at is null`
    expect(open).toEqual({ jobs: 10 })
    while (hook.arrived.length < 30) {
      hook.release(204)
      await sleep(10)
    }
    hook.release(204)
    await awaitDelivery(endpoint.id, ({ status }) => status === 'delivered')
  })

  test('an endpoint with a rate limit does not lose the leases of its waiting deliveries', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 204, {
      rate_per_s: 500,
      max_in_flight: 100,
    })
    await world.sql`
      insert into events (tenant_id, id, type, subject_id, data)
      select ${client.tenant_id}, uuidv7(), 'webhook_endpoint.updated', ${endpoint.id}, '{}'
      from generate_series(1, 300) n`
    await untilArrived(hook, 301)
    await world.drain()
    // In a busy process permits may expire: such attempts end with the outcome `returned`. An attempt without an
    // outcome has lost its lease.
    const lapsed = await world.sql`
      select from jobs j join job_attempts a on a.job_id = j.id
      where j.resource_id = ${endpoint.id} and a.outcome is null`
    expect(lapsed).toHaveLength(0)
    expect(hook.arrived).toHaveLength(301)
  })
})

test('the events of a tenant with many events soon get their sequences although many tenants have a few events', async () => {
  const { url, drop } = await createDatabase()
  onTestFinished(drop)
  const sql = connectDatabase(url, { max: 1, application_name: 'test' })
  onTestFinished(() => sql.end())
  const busy = newId()
  const write = async (tenant_id: string, count: number) =>
    await sql`
      insert into events (tenant_id, id, type, subject_id, data)
      select ${tenant_id}, uuidv7(), 'customer.created', uuidv7(), '{}' from generate_series(1, ${count}::integer)`
  await write(busy, 5_000)
  for (let n = 0; n < 200; n++) await write(newId(), 2)
  const { tenants: first, is_complete } = await sequenceEvents(sql, 1_000)
  expect(is_complete).toBe(false)
  expect(first).toHaveLength(201)
  const ofBusy = first.find(({ tenant_id }) => tenant_id === busy)!
  expect(ofBusy.events).toBeGreaterThan(99)
  expect(first.filter(({ events }) => events !== 2)).toEqual([ofBusy])
})

describe('recoveries', () => {
  test('a recovery completes although the steps of another recovery always fail', async ({ world }) => {
    const recovery_id = newId()
    const { endpoint: other } = await hookAndEndpoint(world, () => 500)
    await awaitDelivery(other.id, ({ attempts }) => attempts === 1)
    // Each step of this recovery fails, because the counter `found` overflows. As the least recently updated recovery,
    // it is the first to be tried.
    await world.sql`
      insert into webhook_recoveries (tenant_id, id, endpoint_id, since, until, found, updated_at)
      values (${client.tenant_id}, ${recovery_id}, ${other.id}, '-infinity', now(), 2147483647, '-infinity')`
    onTestFinished(
      async () => void (await world.sql`delete from webhook_recoveries where id = ${recovery_id}`),
    )
    const { endpoint } = await hookAndEndpoint(world)
    const since = new Date(Date.now() - 60_000).toISOString()
    const { body } = await client.post(`${path(endpoint)}/recover`, { since })
    let recovery = body
    while (recovery.status !== 'completed')
      recovery = (await client.get(`/v1/webhook_recoveries/${body.id}`)).body
    const [failing] = await world.sql`select status from webhook_recoveries where id = ${recovery_id}`
    expect(failing).toEqual({ status: 'pending' })
  })

  test('a step of a recovery reads a limited number of deliveries', async () => {
    const { url, drop } = await createDatabase()
    onTestFinished(drop)
    const sql = connectDatabase(url, { max: 1, application_name: 'test' })
    onTestFinished(() => sql.end())
    const [tenant_id, endpoint_id, id] = [newId(), newId(), newId()]
    await sql`
      insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sequence, status,
        failed_at, delivered_at)
      select ${tenant_id}, uuidv7(), ${endpoint_id}, uuidv7(), now(), 'customer.created', n,
        case when n > 700 then 'failed' else 'delivered' end, now(), case when n <= 700 then now() end
      from generate_series(1, 710) n`
    await sql`
      insert into webhook_recoveries (tenant_id, id, endpoint_id, since, until)
      values (${tenant_id}, ${id}, ${endpoint_id}, '-infinity', 'infinity')`
    const step = async () => {
      const more = await continueRecovery(sql)
      const [row] =
        await sql`select found, after_at is null as scanned from webhook_recoveries where id = ${id}`
      return { more, ...row }
    }
    expect(await step()).toEqual({ more: true, found: 0, scanned: false })
    expect(await step()).toEqual({ more: true, found: 10, scanned: true })
    expect(await step()).toMatchObject({ more: false })
  })
})

test('the audit finds no problems after all races', async ({ world }) => {
  await makeDeliveriesDue(world)
  await world.drain()
  expect((await auditEverything(world.sql)).problems).toEqual([])
})
