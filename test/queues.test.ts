// Queues side by side: a slow or full one holds up no other, a dead consumer is seen, and pauses hold when everything is slow.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { startWorker } from '#workers/main.ts'
import { checkInvariants } from '#test/books.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { ASYNC, createPayment, eventually, fault, heldPayment, paymentIn } from '#test/payments.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import { createWorld, type World } from '#test/world.ts'

const CAPTURES = { method: 'POST', path: '/capture$' }
const log = createLog('silent', 'test')

/** Authorized payments, so many, made side by side. */
async function heldPayments(world: World, count: number): Promise<string[]> {
  const { client, sql } = world
  const ids: string[] = []
  for (let made = 0; made < count; made += 50) {
    const answers = await Promise.all(
      Array.from({ length: Math.min(50, count - made) }, () => createPayment(client, {}, ASYNC)),
    )
    ids.push(...answers.map(({ body }) => body.id as string))
  }
  await world.drain()
  const held = await sql`select from payments where id = any(${ids}::uuid[]) and status = 'authorized'`
  expect(held).toHaveLength(count)
  return ids
}

async function capture({ client }: World, ids: string[]): Promise<void> {
  for (let asked = 0; asked < ids.length; asked += 50)
    await Promise.all(
      ids.slice(asked, asked + 50).map((id) => client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)),
    )
}

async function countOf(metric: typeof metrics.watchdog, queue: string): Promise<number> {
  const { values } = await metric.get()
  return values.find(({ labels }) => labels.queue === queue)?.value ?? 0
}

describe('with Redis away', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld({ env: { REDIS_URL: 'redis://127.0.0.1:9', WORKER_CONCURRENCY: '40' } })
  })
  afterAll(async () => await world?.close())

  test('hundreds of captures that the processor does not answer hold up no notification', async () => {
    await world.provider('stripe').control('POST', '/webhooks', { paused: true })
    const ids = await heldPayments(world, 120)
    const held = await fault(world, { match: CAPTURES, times: 1000, fault: 'hold' })
    await capture(world, ids)
    await held.hit(30)
    await world.provider('stripe').control('POST', '/webhooks', { paused: false })
    await eventually(async () => {
      const applied = await world.sql`select from notifications where state = 'applied'`
      expect(applied.length).toBeGreaterThanOrEqual(20)
    })
    expect(await world.sql`select from payments where status = 'captured'`).toEqual([])
    await held.remove()
    for (const id of ids) await paymentIn(world.client, id, 'captured')
    await world.drain()
    await checkInvariants(world)
  })
})

describe('a queue that the sweep has filled', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld({ notifications: false, env: { WORKER_CONCURRENCY: '16', TENANT_WINDOW: '1' } })
  })
  afterAll(async () => await world?.close())

  test('has a slot left for a bell', async () => {
    const [crowd, other] = [world.client, await world.clientOf()]
    // All but the first wait above the tenant's window, where only walks find them.
    const authorizations = { method: 'POST', path: '/payment_intents$', contains: world.tenant_id }
    const held = await fault(world, { match: authorizations, times: 1000, fault: 'hold' })
    const first = await createPayment(crowd, {}, ASYNC)
    const more = await Promise.all(Array.from({ length: 40 }, () => createPayment(crowd, {}, ASYNC)))
    await held.hit(15)
    expect((await createPayment(other)).body.status).toBe('authorized')
    expect(await world.sql`select from payments where status = 'authorized'`).toHaveLength(1)
    await held.remove()
    for (const { body } of [first, ...more]) await paymentIn(crowd, body.id, 'authorized')
  })
})

describe('a consumer that brings no bells any more', () => {
  let world: World
  let wire: Proxy
  beforeAll(async () => {
    world = await createWorld({ parts: ['api'], notifications: false })
    wire = await startProxy(world.config.REDIS_URL!)
  })
  afterAll(async () => {
    await wire?.close()
    await world?.close()
  })

  test('is restarted although all its jobs are claimed directly', async () => {
    const worker = await startWorker({ ...world.config, REDIS_URL: wire.url }, log)
    try {
      await heldPayment(world.client)
      // What it asks when it takes a bell goes nowhere; those who ring are answered.
      wire.swallow('{sluice:payments}:payments:stalled')
      const before = await countOf(metrics.watchdog, 'payments')
      const directly = await countOf(metrics.directClaims, 'payments')
      await eventually(async () => {
        await heldPayment(world.client)
        expect(await countOf(metrics.watchdog, 'payments')).toBeGreaterThan(before)
      }, 25_000)
      expect(await countOf(metrics.directClaims, 'payments')).toBeGreaterThan(directly)
      wire.swallow(null)
      // Bells bring jobs again.
      await eventually(async () => {
        const claimed = await countOf(metrics.directClaims, 'payments')
        for (let each = 0; each < 5; each += 1) await heldPayment(world.client)
        expect(await countOf(metrics.directClaims, 'payments')).toBe(claimed)
      }, 180_000)
    } finally {
      await worker.close()
    }
  }, 180_000)
})

describe('a slow database', () => {
  // What is judged is the number of attempts. How long they take depends on what else the machine does.
  const PATIENT_MS = 60_000
  let world: World
  let wire: Proxy
  beforeAll(async () => {
    world = await createWorld({ parts: ['api'], notifications: false })
    wire = await startProxy(world.config.DATABASE_URL!)
  })
  afterAll(async () => {
    await wire?.close()
    await world?.close()
  })

  test('at 720 ms a statement, and at 2 s, each job is done in one attempt, and a pause holds', async () => {
    const { client, sql } = world
    // So few connections that all are there before it becomes slow: what takes long then is the statements.
    const slow = { ...world.config, DATABASE_URL: wire.url, DATABASE_POOL: 2 }
    const worker = await startWorker(slow, log)
    try {
      await heldPayments(world, 50)
      for (const delay_ms of [360, 1000]) {
        wire.delay(delay_ms)
        const asked = await Promise.all(Array.from({ length: 20 }, () => createPayment(client, {}, ASYNC)))
        for (const { body } of asked) await paymentIn(client, body.id, 'authorized', PATIENT_MS)
      }
      wire.delay(360)
      const more = await Promise.all(Array.from({ length: 20 }, () => createPayment(client, {}, ASYNC)))
      await pauseJobs(sql, { queue: 'payments' })
      const [paused] = await sql<{ at_ms: number }[]>`
        select extract(epoch from created_at)::float8 * 1000 as at_ms from pauses`
      await eventually(async () => {
        const [now] = await sql<{ ms: number }[]>`select extract(epoch from now())::float8 * 1000 as ms`
        expect(now!.ms).toBeGreaterThan(paused!.at_ms + 2500)
      })
      const requests = await world.provider('stripe').requests({ method: 'POST' })
      expect(requests.filter(({ at_ms }: { at_ms: number }) => at_ms > paused!.at_ms + 1000)).toEqual([])
      await resumeJobs(sql, { queue: 'payments' })
      for (const { body } of more) await paymentIn(client, body.id, 'authorized', PATIENT_MS)
      const tried_again = await sql`
        select a.attempt, a.outcome, b.outcome as next from job_attempts a join all_job_attempts b on b.tenant_id = a.tenant_id and b.job_id = a.job_id
          and b.attempt = a.attempt + 1 where a.outcome is distinct from 'returned'`
      expect(tried_again).toEqual([])
    } finally {
      await worker.close()
    }
  }, 180_000)
})

describe('when all sockets are in use', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld({
      notifications: false,
      env: { WORKER_CONCURRENCY: '500', TENANT_WINDOW: '1000' },
    })
  })
  afterAll(async () => await world?.close())

  test('a call that waited for one does not start after a pause', async () => {
    const { sql } = world
    const ids = await heldPayments(world, 400)
    const held = await fault(world, { match: CAPTURES, times: 1000, fault: 'hold' })
    await capture(world, ids)
    // As many as there are sockets; the others have been claimed and wait for one.
    await held.hit(256)
    await eventually(async () => {
      const running = await sql`select from jobs where state = 'running'`
      expect(running.length).toBeGreaterThan(300)
    })
    await pauseJobs(sql, { queue: 'payments' })
    const [paused] = await sql<{ at_ms: number }[]>`
      select extract(epoch from created_at)::float8 * 1000 as at_ms from pauses`
    await eventually(async () => expect(Date.now()).toBeGreaterThan(paused!.at_ms + 1100))
    await held.remove()
    await eventually(async () => {
      expect(await sql`select from jobs where state = 'running'`).toEqual([])
    })
    const requests = await world.provider('stripe').requests({ method: 'POST', path: '/capture$' })
    expect(requests.filter(({ at_ms }: { at_ms: number }) => at_ms > paused!.at_ms + 1000)).toEqual([])
    expect(requests.length).toBeLessThan(400)
    // They were given back untouched.
    const waiting = await sql<{ outcome: string }[]>`
      select a.outcome from jobs j join job_attempts a on a.tenant_id = j.tenant_id and a.job_id = j.id where j.finished_at is null`
    expect(new Set(waiting.map(({ outcome }) => outcome))).toEqual(new Set(['returned']))
    await resumeJobs(sql, { queue: 'payments' })
    for (const id of ids) await paymentIn(world.client, id, 'captured')
    await checkInvariants(world)
  }, 180_000)
})
