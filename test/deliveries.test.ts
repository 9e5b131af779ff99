// Tests webhook deliveries: their content, order, limits, retries, permits and failures.
import { createServer as createHttpsServer } from 'node:https'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { describe, expect, onTestFinished } from 'vitest'
import { auditEverything } from '#domain/audit/audit.ts'
import { certificateKey, loopbackCertificate } from '#test/certificate.ts'
import type { Client } from '#test/client.ts'
import {
  createEvent,
  deliveriesOf,
  makeDeliveriesDue,
  makeDeliveriesDueUntil,
  LOOPBACK,
  registerEndpoint,
  openHook,
  untilArrived,
  verifyWithBothLibraries,
  type TestHook,
} from '#test/deliveries.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { listening } from '#test/receiver.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ env: LOOPBACK })
// Each test has its own tenant, so the endpoints of one test receive no events of another.
let client: Client & { tenant_id: string; key_id: string }

async function hookAndEndpoint(world: World, reply?: Parameters<typeof openHook>[0], fields: object = {}) {
  client = await world.clientOf()
  const hook = await openHook(reply)
  onTestFinished(() => hook.close())
  return { hook, endpoint: await registerEndpoint(client, { url: hook.url, ...fields }) }
}

const fetchEndpoint = async (id: string) => (await client.get(`/v1/webhook_endpoints/${id}`)).body
const sequencesOf = (hook: TestHook) => hook.arrived.map(({ body }) => body.sequence)

describe('a delivery', () => {
  test('carries the event, signed as Standard Webhooks defines, and its log shows the response', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 200, { headers: { 'x-shop': '17' } })
    const id = await createEvent(client)
    await untilArrived(hook, 2)
    await world.drain()
    const [created, first] = hook.arrived
    verifyWithBothLibraries(created!, endpoint.secret)
    verifyWithBothLibraries(first!, endpoint.secret)
    const { body, headers } = first!
    expect([created!.body.type, body.type, body.sequence]).toEqual([
      'webhook_endpoint.created',
      'customer.created',
      2,
    ])
    expect(body).toMatchObject({ tenant_id: client.tenant_id, data: { id, name: 'Ada' } })
    expect(headers).toMatchObject({
      'webhook-id': body.id,
      'user-agent': 'Sluice-Webhooks/1',
      'content-type': 'application/json',
      'x-shop': '17',
    })
    const [event] = (await client.get('/v1/events?after=1')).body
    expect(body).toEqual({
      id: event.id,
      type: event.type,
      timestamp: event.created_at,
      sequence: 2,
      tenant_id: client.tenant_id,
      livemode: true,
      data: event.data,
    })
    const [, delivery] = await deliveriesOf(client, endpoint.id)
    expect(delivery).toMatchObject({
      event_id: body.id,
      status: 'delivered',
      attempts: 1,
      next_attempt_at: null,
      last_status_code: 200,
      last_error: null,
      attempts_log: [{ status_code: 200, error: null, response_excerpt: 'answer of 200', manual: false }],
    })
  })

  test('goes only to the endpoints of its tenant that subscribe to its type', async ({ world }) => {
    const { hook: all } = await hookAndEndpoint(world)
    const shop = client
    const hooks = [await openHook(), await openHook(), await openHook()]
    onTestFinished(async () => void (await Promise.all(hooks.map((hook) => hook.close()))))
    await registerEndpoint(shop, { url: hooks[0]!.url, types: ['payment.*'] })
    await registerEndpoint(shop, { url: hooks[1]!.url, types: ['payment.*', 'customer.created'] })
    const stranger = await world.clientOf()
    await registerEndpoint(stranger, { url: hooks[2]!.url })
    await createEvent(shop)
    await world.drain()
    const typesOf = (hook: TestHook) => hook.arrived.map(({ body }) => body.type)
    expect(typesOf(all)).toEqual([...Array(3).fill('webhook_endpoint.created'), 'customer.created'])
    expect(hooks.map(typesOf)).toEqual([[], ['customer.created'], ['webhook_endpoint.created']])
  })

  test('has only the id of a resource that is too long, and is marked as truncated', async ({ world }) => {
    const { hook } = await hookAndEndpoint(world)
    const id = await createEvent(client)
    await world.sql`
      insert into events (tenant_id, id, type, subject_id, data)
      values (${client.tenant_id}, uuidv7(), 'customer.updated', ${id}, ${world.sql.json({ id, name: 'x'.repeat(20_000) })})`
    await untilArrived(hook, 3)
    await world.drain()
    expect(hook.arrived.at(-1)!.body.data).toEqual({ id, truncated: true })
    expect(hook.arrived.at(-1)!.text.length).toBeLessThan(1_000)
  })

  test('is signed with all secrets during their grace period, and afterwards only with the newest secret', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world)
    await world.drain()
    const { body: rotated } = await client.post(`/v1/webhook_endpoints/${endpoint.id}/rotate_secret`, {})
    await world.drain()
    const both = hook.arrived.at(-1)!
    verifyWithBothLibraries(both, endpoint.secret)
    verifyWithBothLibraries(both, rotated.secret)
    await client.post(`/v1/webhook_endpoints/${endpoint.id}/rotate_secret`, { grace_s: 0 })
    await world.drain()
    const alone = hook.arrived.at(-1)!
    expect(() => verifyWithBothLibraries(alone, endpoint.secret)).toThrow('No matching signature found')
    expect(() => verifyWithBothLibraries(alone, rotated.secret)).toThrow('No matching signature found')
    expect(alone.headers['webhook-signature']!.split(' ')).toHaveLength(1)
  })

  test('whose arrival is not recorded is sent again with the same id and the same bytes', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, (nth) => (nth === 0 ? 'hold' : 204))
    await untilArrived(hook, 1)
    // Simulates a worker that dies after the response and before the record: the lease of the job has expired.
    await world.sql`
      update jobs set lease_token = gen_random_uuid(), lease_until = now()
      where resource_id = ${endpoint.id} and state = 'running'`
    hook.release(204)
    await untilArrived(hook, 2)
    await world.drain()
    expect(hook.arrived.map(({ headers }) => headers['webhook-id'])).toEqual(
      Array(2).fill(hook.arrived[0]!.body.id),
    )
    expect(hook.arrived[1]!.text).toBe(hook.arrived[0]!.text)
    expect(await deliveriesOf(client, endpoint.id)).toMatchObject([{ status: 'delivered', attempts: 1 }])
  })

  test('waits while its queue is paused', async ({ world }) => {
    await pauseJobs(world.sql, { queue: 'deliveries' })
    onTestFinished(async () => await resumeJobs(world.sql, { queue: 'deliveries' }))
    const { hook, endpoint } = await hookAndEndpoint(world)
    while ((await deliveriesOf(client, endpoint.id)).length === 0) await sleep(20)
    await world.sql`select pg_sleep(0.3)`
    expect(hook.arrived).toEqual([])
    await resumeJobs(world.sql, { queue: 'deliveries' })
    await untilArrived(hook, 1)
  })
})

/**
 * Resumes deliveries, and blocks the read of the event in the attempt at `endpoint`. Resolves when the attempt runs.
 */
async function blockAttempt(
  world: World,
  endpoint: { id: string },
): Promise<{ release: () => Promise<void> }> {
  const lock = await world.sql.reserve()
  await lock`begin`
  await lock`lock table events in access exclusive mode`
  await resumeJobs(world.sql, { queue: 'deliveries' })
  const running = () => world.sql`select from jobs where resource_id = ${endpoint.id} and state = 'running'`
  while ((await running()).length === 0) await sleep(10)
  return {
    async release() {
      await lock`commit`
      lock.release()
    },
  }
}

describe('the permit of a delivery', () => {
  const PAUSED_QUEUE = { queue: 'deliveries' }
  /** After this time a permit that was not renewed has expired. */
  const PERMIT_EXPIRY_MS = 1_000
  /** The outcomes of an endpoint's failed attempts. Outcomes of successful attempts are not stored. */
  const findOutcomes = async (world: World, endpoint: { id: string }) => {
    const rows = await world.sql<{ outcome: string }[]>`
      select a.outcome from jobs j join job_attempts a on a.job_id = j.id
      where j.resource_id = ${endpoint.id} and a.outcome is not null order by a.started_at`
    return rows.map(({ outcome }) => outcome)
  }

  test.for([
    ['is renewed when it has expired, and the attempt continues', false],
    ['is refused once its queue is paused, and no byte is sent', true],
  ] as const)('%s', async ([, pauses], { world }) => {
    await pauseJobs(world.sql, PAUSED_QUEUE)
    onTestFinished(async () => await resumeJobs(world.sql, PAUSED_QUEUE))
    const { hook, endpoint } = await hookAndEndpoint(world)
    while ((await deliveriesOf(client, endpoint.id)).length === 0) await sleep(20)
    let early = 0
    const blocked = await blockAttempt(world, endpoint)
    if (pauses) await pauseJobs(world.sql, PAUSED_QUEUE)
    await sleep(PERMIT_EXPIRY_MS)
    await blocked.release()
    if (pauses) {
      while (hook.arrived.length === 0 && (await findOutcomes(world, endpoint)).length === 0) await sleep(20)
      early = hook.arrived.length
      await resumeJobs(world.sql, PAUSED_QUEUE)
    }
    await untilArrived(hook, 1)
    await world.drain()
    expect(await findOutcomes(world, endpoint)).toEqual(pauses ? ['returned'] : [])
    expect([early, hook.arrived.length]).toEqual([0, 1])
  })

  test.for([
    ['is renewed during a slow connection', false],
    ['is refused after the connection if the queue was paused before', true],
  ] as const)('%s', async ([, pauses], { world }) => {
    const trusted = getCACertificates('default')
    setDefaultCACertificates([...trusted, loopbackCertificate])
    onTestFinished(() => setDefaultCACertificates(trusted))
    const requests: string[] = []
    let early = 0
    const tls = createHttpsServer({ key: certificateKey, cert: loopbackCertificate }, ({ url }, response) => {
      requests.push(url!)
      response.end()
    })
    const handshakes: (() => void)[] = []
    const receiver = createServer((socket) => {
      socket.on('error', () => {})
      handshakes.push(() => tls.emit('connection', socket))
    })
    onTestFinished(() => void receiver.close())
    const shakeHands = () => handshakes.splice(0).forEach((begin) => begin())
    onTestFinished(async () => await resumeJobs(world.sql, PAUSED_QUEUE))
    client = await world.clientOf()
    const endpoint = await registerEndpoint(client, {
      url: `https://127.0.0.1:${await listening(receiver)}/`,
    })
    while (handshakes.length === 0) await sleep(10)
    if (pauses) await pauseJobs(world.sql, PAUSED_QUEUE)
    await sleep(PERMIT_EXPIRY_MS)
    shakeHands()
    if (pauses) {
      while (requests.length === 0 && (await findOutcomes(world, endpoint)).length === 0) await sleep(20)
      early = requests.length
      await resumeJobs(world.sql, PAUSED_QUEUE)
    }
    while (requests.length === 0) {
      shakeHands()
      await sleep(10)
    }
    await world.drain()
    expect(await findOutcomes(world, endpoint)).toEqual(pauses ? ['returned'] : [])
    expect([early, requests.length]).toEqual([0, 1])
  })
})

describe('a delivery that fails', () => {
  test('is retried with the same id and the same bytes', async ({ world }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, (nth) => (nth < 2 ? 500 : 200))
    await makeDeliveriesDueUntil(world, () => hook.arrived.length >= 3)
    await world.drain()
    expect(new Set(hook.arrived.map(({ text }) => text)).size).toBe(1)
    expect(new Set(hook.arrived.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    for (const delivered of hook.arrived) verifyWithBothLibraries(delivered, endpoint.secret)
    const [delivery] = await deliveriesOf(client, endpoint.id)
    expect(delivery).toMatchObject({ status: 'delivered', attempts: 3, last_status_code: 200 })
    expect(delivery.attempts_log.map(({ status_code }: { status_code: number }) => status_code)).toEqual([
      500, 500, 200,
    ])
  })

  test.for([
    ['302', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }, 4_000, 6_000],
    [
      '429 with Retry-After of 7 s, more than the schedule',
      { status: 429, headers: { 'retry-after': '7' } },
      7_000,
      7_000,
    ],
    [
      '503 with Retry-After of 1 s, less than the schedule',
      { status: 503, headers: { 'retry-after': '1' } },
      5_000,
      5_000,
    ],
    [
      '500 with Retry-After of an hour, at most twice the schedule',
      { status: 500, headers: { 'retry-after': '3600' } },
      10_000,
      10_000,
    ],
  ] as const)(
    'with %s is retried after the scheduled delay or after Retry-After, whichever is longer',
    async ([, reply, min_ms, max_ms], { world }) => {
      const { hook, endpoint } = await hookAndEndpoint(world, () => reply)
      await untilArrived(hook, 1)
      const findDelay = async () =>
        (
          await world.sql<{ delay_ms: number | null }[]>`
          select extract(epoch from w.due_at - w.queued_at)::float8 * 1000 as delay_ms
          from webhook_deliveries d join webhook_due w on w.delivery_id = d.id
          where d.endpoint_id = ${endpoint.id} and d.attempts = 1`
        )[0]
      let delay = await findDelay()
      for (; delay === undefined; delay = await findDelay()) await sleep(10)
      // The delay is counted from the beginning of the statement. `queued_at` is the time at which the statement writes
      // the row, which may be later.
      expect(delay.delay_ms).toBeGreaterThan(min_ms - 1_000)
      expect(delay.delay_ms).toBeLessThanOrEqual(max_ms)
      expect(await deliveriesOf(client, endpoint.id)).toMatchObject([
        { status: 'pending', last_status_code: reply.status, attempts: 1 },
      ])
    },
  )

  test('with 410 disables its endpoint at once, with an event, and ends the waiting deliveries', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, (_nth, { body }) =>
      body.type === 'customer.deleted' ? 410 : 500,
    )
    const id = await createEvent(client)
    await untilArrived(hook, 2)
    await client.delete(`/v1/customers/${id}`)
    while ((await fetchEndpoint(endpoint.id)).status === 'enabled') await sleep(20)
    await makeDeliveriesDue(world)
    await world.drain()
    expect(await fetchEndpoint(endpoint.id)).toMatchObject({ status: 'disabled', disabled_reason: 'gone' })
    await createEvent(client)
    await world.drain()
    const deliveries = await deliveriesOf(client, endpoint.id)
    expect(deliveries.map(({ type, status }) => `${type} ${status}`)).toEqual([
      'webhook_endpoint.created failed',
      'customer.created failed',
      'customer.deleted failed',
      'webhook_endpoint.disabled skipped',
      'customer.created skipped',
    ])
    const { body } = await client.get(`/v1/webhook_endpoints/${endpoint.id}/stats`)
    expect(body).toMatchObject({ delivered: 0, failed: 3, pending: 0 })
  })

  test('disables its endpoint after five days without a success', async ({ world }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 500)
    await untilArrived(hook, 1)
    while ((await deliveriesOf(client, endpoint.id))[0].attempts === 0) await sleep(20)
    await world.sql`
      update webhook_endpoints set failing_since = now() - interval '4 days 23 hours' where id = ${endpoint.id}`
    await makeDeliveriesDueUntil(world, () => hook.arrived.length >= 2)
    while ((await deliveriesOf(client, endpoint.id))[0].attempts < 2) await sleep(20)
    expect(await fetchEndpoint(endpoint.id)).toMatchObject({ status: 'enabled' })
    await world.sql`
      update webhook_endpoints set failing_since = now() - interval '5 days 1 hour' where id = ${endpoint.id}`
    await makeDeliveriesDueUntil(world, () => hook.arrived.length >= 3)
    while ((await fetchEndpoint(endpoint.id)).status === 'enabled') await sleep(20)
    expect(await fetchEndpoint(endpoint.id)).toMatchObject({ status: 'disabled', disabled_reason: 'failing' })
    await makeDeliveriesDue(world)
    await world.drain()
    expect((await deliveriesOf(client, endpoint.id)).map(({ status }) => status)).toEqual([
      'failed',
      'skipped',
    ])
  })

  test('for the tenth time is exhausted', async ({ world }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 500)
    await makeDeliveriesDueUntil(world, () => hook.arrived.length >= 10)
    await world.drain()
    const [delivery] = await deliveriesOf(client, endpoint.id)
    expect(delivery).toMatchObject({ status: 'exhausted', attempts: 10, next_attempt_at: null })
    expect(hook.arrived).toHaveLength(10)
    expect((await client.get(`/v1/webhook_endpoints/${endpoint.id}/stats`)).body).toMatchObject({
      delivered: 0,
      failed: 1,
      pending: 0,
      p50_ms: null,
      last_success_at: null,
      last_failure_at: expect.any(String),
    })
  })
})

describe('an endpoint', () => {
  test('that is ordered receives one delivery at a time, after all earlier deliveries are final', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(
      world,
      (nth, { body }) => (nth === 0 && body.sequence! % 3 === 0 ? 500 : 204),
      { ordered: true },
    )
    for (let n = 0; n < 11; n++) await createEvent(client)
    const last = () => hook.arrived.at(-1)?.body.sequence === 12
    await makeDeliveriesDueUntil(world, last)
    await world.drain()
    expect(sequencesOf(hook)).toEqual([1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12, 12])
    expect(hook.open.most).toBe(1)
    expect((await deliveriesOf(client, endpoint.id)).every(({ status }) => status === 'delivered')).toBe(true)
  })

  test('that is ordered continues after an exhausted delivery', async ({ world }) => {
    const { hook } = await hookAndEndpoint(world, (_nth, { body }) => (body.sequence === 2 ? 500 : 204), {
      ordered: true,
    })
    await createEvent(client)
    await createEvent(client)
    await makeDeliveriesDueUntil(world, () => hook.arrived.at(-1)?.body.sequence === 3)
    await world.drain()
    expect(sequencesOf(hook)).toEqual([1, ...Array(10).fill(2), 3])
  })

  test('never has more concurrent requests than its limit', async ({ world }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 'hold', { max_in_flight: 3 })
    for (let n = 0; n < 9; n++) await createEvent(client)
    for (let answered = 0; answered < 10; answered = hook.arrived.length - hook.open.now) {
      await untilArrived(hook, Math.min(10, answered + 3))
      hook.release(204)
    }
    await world.drain()
    expect(hook.open.most).toBe(3)
    expect((await deliveriesOf(client, endpoint.id)).every(({ status }) => status === 'delivered')).toBe(true)
  })

  test('that has failed for a minute receives one request at a time until a request succeeds', async ({
    world,
  }) => {
    let failing = true
    const { hook } = await hookAndEndpoint(world, () => (failing ? 500 : 'hold'), { max_in_flight: 5 })
    await untilArrived(hook, 1)
    while (!(await isFailing())) await sleep(10)
    await world.sql`
      update webhook_endpoints set failing_since = now() - interval '61 seconds' where tenant_id = ${client.tenant_id}`
    for (let n = 0; n < 6; n++) await createEvent(client)
    failing = false
    await untilArrived(hook, 2)
    await world.sql`select pg_sleep(0.3)`
    expect(hook.open.now).toBe(1)
    hook.release(204)
    await untilArrived(hook, 7)
    hook.release(204)
    await makeDeliveriesDueUntil(world, () => hook.arrived.length >= 8)
    hook.release(204)
    await world.drain()

    async function isFailing(): Promise<boolean> {
      const rows = await world.sql`
        select from webhook_endpoints where tenant_id = ${client.tenant_id} and failing_since is not null`
      return rows.length > 0
    }
  })

  test('receives no more requests a second than its limit', async ({ world }) => {
    const { hook } = await hookAndEndpoint(world, () => 204, { rate_per_s: 20, max_in_flight: 100 })
    await world.drain()
    for (let n = 0; n < 10; n++) await createEvent(client)
    await world.drain()
    const [row] = await world.sql<{ took_ms: number }[]>`
      select extract(epoch from max((l ->> 'at')::timestamptz) - min((l ->> 'at')::timestamptz))::float8 * 1000 as took_ms
      from webhook_deliveries d cross join jsonb_array_elements(d.attempts_log) l
      where d.tenant_id = ${client.tenant_id} and d.type = 'customer.created'`
    expect(hook.arrived).toHaveLength(11)
    // The limit requires nine gaps of 50 ms. The time is shorter if the first attempts begin late on a busy machine.
    // Without a limit all attempts begin within a tenth of this time.
    expect(row!.took_ms).toBeGreaterThan(200)
  })

  test('that is disabled skips its deliveries; a recovery sends them, even while the endpoint is disabled, and enabling the endpoint does not', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 500)
    await createEvent(client)
    await untilArrived(hook, 2)
    const path = `/v1/webhook_endpoints/${endpoint.id}`
    await client.patch(path, { status: 'disabled' })
    await createEvent(client)
    await makeDeliveriesDue(world)
    await world.drain()
    const statuses = async () => (await deliveriesOf(client, endpoint.id)).map(({ status }) => status)
    expect(await statuses()).toEqual(Array(4).fill('skipped'))
    const sent_before = hook.arrived.length
    await client.patch(path, { status: 'enabled' })
    await world.drain()
    await makeDeliveriesDue(world)
    await world.drain()
    expect(new Set(hook.arrived.slice(sent_before).map(({ body }) => body.type))).toEqual(
      new Set(['webhook_endpoint.enabled']),
    )
    const before = hook.arrived.length
    await client.patch(path, { status: 'disabled' })
    await makeDeliveriesDue(world)
    await world.drain()

    const since = (await fetchEndpoint(endpoint.id)).created_at
    const { body: recovery, status } = await client.post(`${path}/recover`, { since })
    expect([status, recovery.status]).toEqual([202, 'pending'])
    const progress = async () => (await client.get(`/v1/webhook_recoveries/${recovery.id}`)).body
    while ((await progress()).status !== 'completed') await sleep(20)
    expect(await progress()).toMatchObject({ found: 6, sent: 6 })
    expect(new Set(sequencesOf(hook).slice(before))).toEqual(new Set([1, 2, 3, 4, 5, 6]))
    await makeDeliveriesDue(world)
    await world.drain()
    expect(await statuses()).toEqual(Array(6).fill('skipped'))
  })

  test('that fails shows the time of its first failure until its next success', async ({ world }) => {
    let failing = false
    const { hook, endpoint } = await hookAndEndpoint(world, () => (failing ? 500 : 204))
    await untilArrived(hook, 1)
    await world.drain()
    expect(await fetchEndpoint(endpoint.id)).toMatchObject({ failing_since: null })
    failing = true
    await createEvent(client)
    await untilArrived(hook, 2)
    await world.drain()
    const { failing_since } = await fetchEndpoint(endpoint.id)
    expect(Date.parse(failing_since)).toBeGreaterThan(Date.now() - 30_000)
    expect((await client.get('/v1/webhook_endpoints')).body).toMatchObject([{ failing_since }])
    failing = false
    const failingSince = async () => {
      await makeDeliveriesDue(world)
      return (await fetchEndpoint(endpoint.id)).failing_since
    }
    await expect.poll(failingSince).toBeNull()
  })

  test('for which a recovery is requested receives its failed deliveries', async ({ world }) => {
    let failing = true
    const { hook, endpoint } = await hookAndEndpoint(world, () => (failing ? 500 : 204))
    await createEvent(client)
    await makeDeliveriesDueUntil(world, () => hook.arrived.length >= 20)
    await world.drain()
    failing = false
    const since = new Date(Date.now() - 60_000).toISOString()
    const { body } = await client.post(`/v1/webhook_endpoints/${endpoint.id}/recover`, { since })
    await untilArrived(hook, 22)
    await world.drain()
    expect(await deliveriesOf(client, endpoint.id)).toMatchObject([
      { status: 'delivered', attempts: 11 },
      { status: 'delivered', attempts: 11 },
    ])
    expect((await client.get(`/v1/webhook_recoveries/${body.id}`)).body).toMatchObject({ found: 2, sent: 2 })
  })

  test('that is deleted receives no further requests', async ({ world }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 500)
    await untilArrived(hook, 1)
    await client.delete(`/v1/webhook_endpoints/${endpoint.id}`)
    await createEvent(client)
    await makeDeliveriesDue(world)
    await world.drain()
    await makeDeliveriesDue(world)
    await world.drain()
    expect(hook.arrived).toHaveLength(1)
    expect(await world.sql`select from webhook_due where endpoint_id = ${endpoint.id}`).toHaveLength(0)
  })
})

describe('on request', () => {
  test('a delivery is sent again for each replay, and its schedule does not change', async ({ world }) => {
    let reply = 500
    const { hook, endpoint } = await hookAndEndpoint(world, () => reply)
    await untilArrived(hook, 1)
    let [delivery] = await deliveriesOf(client, endpoint.id)
    while (delivery.attempts === 0) [delivery] = await deliveriesOf(client, endpoint.id)
    // On a slow machine, the next scheduled attempt would be sent before the end of this test.
    await world.sql`update webhook_due set due_at = due_at + interval '1 hour' where endpoint_id = ${endpoint.id}`
    const replay = async () => {
      const before = hook.arrived.length
      const { status, body } = await client.post(`/v1/webhook_deliveries/${delivery.id}/replay`)
      expect([status, body.id]).toEqual([202, delivery.id])
      await untilArrived(hook, before + 1)
    }
    await replay()
    let [after] = await deliveriesOf(client, endpoint.id)
    while (after.attempts_log.length < 2) [after] = await deliveriesOf(client, endpoint.id)
    expect(after).toMatchObject({
      status: 'pending',
      attempts: 1,
      next_attempt_at: delivery.next_attempt_at,
      attempts_log: [{ manual: false }, { manual: true, status_code: 500 }],
    })
    reply = 200
    await client.patch(`/v1/webhook_endpoints/${endpoint.id}`, { status: 'disabled' })
    await replay()
    ;[after] = await deliveriesOf(client, endpoint.id)
    // Until the answer is recorded, the delivery may be `skipped`, because its endpoint is disabled.
    while (after.status !== 'delivered') [after] = await deliveriesOf(client, endpoint.id)
    expect(after).toMatchObject({ status: 'delivered', attempts: 1, next_attempt_at: null })
    expect(new Set(hook.arrived.map(({ text }) => text)).size).toBe(1)
    await makeDeliveriesDue(world)
    await world.drain()
    expect(hook.arrived).toHaveLength(3)
  })

  test('a test delivery is sent once, even if it fails, and is not counted in the statistics', async ({
    world,
  }) => {
    const { hook, endpoint } = await hookAndEndpoint(world, () => 500, { types: ['payment.captured'] })
    const path = `/v1/webhook_endpoints/${endpoint.id}`
    const { status, body } = await client.post(`${path}/test`, { type: 'payment.captured' })
    expect([status, body]).toMatchObject([
      202,
      { type: 'payment.captured', sequence: null, status: 'pending' },
    ])
    await untilArrived(hook, 1)
    await world.drain()
    await makeDeliveriesDue(world)
    await world.drain()
    const [arrived] = hook.arrived
    verifyWithBothLibraries(arrived!, endpoint.secret)
    expect(arrived!.body).toMatchObject({
      type: 'payment.captured',
      sequence: null,
      data: { status: 'captured' },
    })
    expect(hook.arrived).toHaveLength(1)
    expect((await client.get(`/v1/webhook_deliveries/${body.id}`)).body).toMatchObject({
      status: 'exhausted',
      attempts: 1,
    })
    expect((await client.get(`${path}/stats`)).body).toMatchObject({ delivered: 0, failed: 0, pending: 0 })
    expect(await fetchEndpoint(endpoint.id)).toMatchObject({ status: 'enabled' })
  })
})

test('after all scenarios the audit finds no problems', async ({ world }) => {
  expect((await auditEverything(world.sql)).problems).toEqual([])
})
