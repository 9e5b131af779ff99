// Queues do not delay each other, stopped consumers are restarted, and pauses take effect even with a slow database or
// without free sockets.
import { afterAll, expect } from 'vitest'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { startWorker } from '#workers/main.ts'
import { checkInvariants } from '#test/books.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { ASYNC, createPayment, eventually, fault, authorizedPayment, paymentIn } from '#test/payments.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import { describeIn, type World } from '#test/world.ts'

const CAPTURES = { method: 'POST', path: '/capture$' }
const log = createLog('silent', 'test')

/** Creates the given number of authorized payments. */
async function createAuthorizedPayments(world: World, count: number): Promise<string[]> {
  const { client, sql } = world
  const ids: string[] = []
  for (let first = 0; first < count; first += 50) {
    const answers = await Promise.all(
      Array.from({ length: Math.min(50, count - first) }, () => createPayment(client, {}, ASYNC)),
    )
    ids.push(...answers.map(({ body }) => body.id as string))
  }
  await world.drain()
  const authorized = await sql`select from payments where id = any(${ids}::uuid[]) and status = 'authorized'`
  expect(authorized).toHaveLength(count)
  return ids
}

async function capture({ client }: World, ids: string[]): Promise<void> {
  for (let first = 0; first < ids.length; first += 50)
    await Promise.all(
      ids.slice(first, first + 50).map((id) => client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)),
    )
}

async function untilCaptured({ sql }: World, ids: string[]): Promise<void> {
  await eventually(async () => {
    const captured = await sql`select from payments where id = any(${ids}::uuid[]) and status = 'captured'`
    expect(captured).toHaveLength(ids.length)
  })
}

async function countOf(metric: typeof metrics.watchdog, queue: string): Promise<number> {
  const { values } = await metric.get()
  return values.find(({ labels }) => labels.queue === queue)?.value ?? 0
}

describeIn('a consumer without wake-ups', { parts: ['api'], notifications: false }, (test) => {
  let proxy: Proxy
  test.beforeAll(async ({ world }) => {
    proxy = await startProxy(world.config.REDIS_URL!)
  })
  afterAll(async () => await proxy?.close())

  test('is restarted although all its jobs are claimed directly', async ({ world }) => {
    const worker = await startWorker({ ...world.config, REDIS_URL: proxy.url }, log)
    try {
      await authorizedPayment(world.client)
      // The consumer's requests for wake-ups get no response; sending wake-ups works.
      proxy.swallow('{sluice:payments}:payments:stalled')
      const before = await countOf(metrics.watchdog, 'payments')
      const directly = await countOf(metrics.directClaims, 'payments')
      await eventually(async () => {
        await authorizedPayment(world.client)
        expect(await countOf(metrics.watchdog, 'payments')).toBeGreaterThan(before)
      }, 25_000)
      expect(await countOf(metrics.directClaims, 'payments')).toBeGreaterThan(directly)
      proxy.swallow(null)
      // Wake-ups lead to claims again, and no job is claimed directly any more.
      await eventually(async () => {
        const claimed = await countOf(metrics.directClaims, 'payments')
        for (let each = 0; each < 5; each += 1) await authorizedPayment(world.client)
        expect(await countOf(metrics.directClaims, 'payments')).toBe(claimed)
      })
    } finally {
      await worker.close()
    }
  })
})

// These tests run concurrently, because the slow database takes as long as all others.
const NO_REDIS = {
  concurrent: true,
  env: { REDIS_URL: 'redis://127.0.0.1:9', WORKER_CONCURRENCY: '40' },
}
describeIn('without Redis', NO_REDIS, (test) => {
  test('captures to which the processor does not respond do not delay notifications', async ({ world }) => {
    await world.provider('stripe').control('POST', '/webhooks', { paused: true })
    const ids = await createAuthorizedPayments(world, 120)
    const hold = await fault(world, { match: CAPTURES, times: 1000, fault: 'hold' })
    await capture(world, ids)
    await hold.hit(30)
    await world.provider('stripe').control('POST', '/webhooks', { paused: false })
    await eventually(async () => {
      const applied = await world.sql`select from notifications where state = 'applied'`
      expect(applied.length).toBeGreaterThanOrEqual(20)
    })
    expect(await world.sql`select from payments where status = 'captured'`).toEqual([])
    await hold.remove()
    await untilCaptured(world, ids)
    await world.drain()
    await checkInvariants(world)
  })
})

const FULL = {
  concurrent: true,
  notifications: false,
  env: { WORKER_CONCURRENCY: '16', TENANT_WINDOW: '1' },
}
describeIn('a queue full of jobs that scans have claimed', FULL, (test) => {
  test('has a free slot for a wake-up', async ({ world }) => {
    const [crowd, other] = [world.client, await world.clientOf()]
    // All jobs except the first exceed the tenant's window of wake-ups, so only scans find them.
    const authorizations = { method: 'POST', path: '/payment_intents$', contains: world.tenant_id }
    const hold = await fault(world, { match: authorizations, times: 1000, fault: 'hold' })
    const first = await createPayment(crowd, {}, ASYNC)
    const more = await Promise.all(Array.from({ length: 40 }, () => createPayment(crowd, {}, ASYNC)))
    await hold.hit(15)
    expect((await createPayment(other)).body.status).toBe('authorized')
    expect(await world.sql`select from payments where status = 'authorized'`).toHaveLength(1)
    await hold.remove()
    for (const { body } of [first, ...more]) await paymentIn(crowd, body.id, 'authorized')
  })
})

const SLOW = { concurrent: true, parts: ['api' as const], notifications: false }
describeIn('a slow database', SLOW, (test) => {
  // The test checks the number of attempts. The duration of an attempt depends on the load of the machine.
  const PAYMENT_TIMEOUT_MS = 60_000
  let proxy: Proxy
  test.beforeAll(async ({ world }) => {
    proxy = await startProxy(world.config.DATABASE_URL!)
  })
  afterAll(async () => await proxy?.close())

  test('with 720 ms or 2 s for each statement leads to one attempt per job, and a pause takes effect', async ({
    world,
  }) => {
    const { client, sql } = world
    // All connections of the small pool are open before the delay begins, so only statements are slow.
    const slow = { ...world.config, DATABASE_URL: proxy.url, DATABASE_POOL: 2 }
    const worker = await startWorker(slow, log)
    try {
      await createAuthorizedPayments(world, 10)
      for (const delay_ms of [360, 1000]) {
        proxy.delay(delay_ms)
        const created = await Promise.all(Array.from({ length: 20 }, () => createPayment(client, {}, ASYNC)))
        for (const { body } of created) await paymentIn(client, body.id, 'authorized', PAYMENT_TIMEOUT_MS)
      }
      proxy.delay(360)
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
      for (const { body } of more) await paymentIn(client, body.id, 'authorized', PAYMENT_TIMEOUT_MS)
      const retried = await sql`
        select a.attempt, a.outcome, b.outcome as next from job_attempts a join all_job_attempts b on b.tenant_id = a.tenant_id and b.job_id = a.job_id
          and b.attempt = a.attempt + 1 where a.outcome is distinct from 'returned'`
      expect(retried).toEqual([])
    } finally {
      await worker.close()
    }
  })
})

const MORE_JOBS_THAN_SOCKETS = {
  notifications: false,
  env: { WORKER_CONCURRENCY: '500', TENANT_WINDOW: '1000' },
}
describeIn('without free sockets', MORE_JOBS_THAN_SOCKETS, (test) => {
  test('a call that waits for a socket does not begin after a pause', async ({ world }) => {
    const { sql } = world
    const ids = await createAuthorizedPayments(world, 300)
    const hold = await fault(world, { match: CAPTURES, times: 1000, fault: 'hold' })
    await capture(world, ids)
    // 256 calls use all sockets. The other jobs are claimed and wait for a socket.
    await hold.hit(256)
    await eventually(async () => {
      const running = await sql`select from jobs where state = 'running'`
      expect(running.length).toBeGreaterThan(270)
    })
    await pauseJobs(sql, { queue: 'payments' })
    const [paused] = await sql<{ at_ms: number }[]>`
      select extract(epoch from created_at)::float8 * 1000 as at_ms from pauses`
    await eventually(async () => expect(Date.now()).toBeGreaterThan(paused!.at_ms + 1100))
    await hold.remove()
    await eventually(async () => {
      expect(await sql`select from jobs where state = 'running'`).toEqual([])
    })
    const requests = await world.provider('stripe').requests({ method: 'POST', path: '/capture$' })
    expect(requests.filter(({ at_ms }: { at_ms: number }) => at_ms > paused!.at_ms + 1000)).toEqual([])
    expect(requests.length).toBeLessThan(ids.length)
    // The attempts that waited for a socket made no call and ended as `returned`.
    const waiting = await sql<{ outcome: string }[]>`
      select a.outcome from jobs j join job_attempts a on a.tenant_id = j.tenant_id and a.job_id = j.id where j.finished_at is null`
    expect(new Set(waiting.map(({ outcome }) => outcome))).toEqual(new Set(['returned']))
    await resumeJobs(sql, { queue: 'payments' })
    await untilCaptured(world, ids)
    await checkInvariants(world)
  })
})
