// Workers that are killed or frozen during a job: another worker completes it, and the money moves once.
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { onlyWithQueue } from '#test/backends.ts'
import {
  authorize,
  capture,
  captureAttempts,
  captureJob,
  blockCaptures,
  expireLease,
} from '#test/captures.ts'
import { expectNothingLost, pay, type CapturedPayment } from '#test/load.ts'
import { until, type Process } from '#test/process.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'

const BACKENDS = ['redis', 'postgres'] as const
const withConnection = { concurrent: false }
const done = { status: 200, body: { status: 'captured' } }

// The scenarios run concurrently, because they mostly wait for leases to expire.
describe.concurrent.each(BACKENDS)('with wake-ups on %s', (queue) => {
  let deployment: Deployment
  const paid: CapturedPayment[] = []

  beforeAll(async () => {
    deployment = await createDeployment({ queue })
    await deployment.startApi()
  })
  // A test begins with the worker that survived the previous one, because starting a process takes half a second of
  // processor time. A failed test leaves no survivor.
  let survivor: Process | undefined
  async function survivorOrNewWorker(): Promise<Process> {
    const worker = survivor ?? (await deployment.startWorker())
    survivor = undefined
    return worker
  }
  afterEach(async () => {
    if (survivor === undefined) await deployment.killWorkers()
  })
  afterAll(async () => await deployment.close())

  test.for(onlyWithQueue('redis', queue))(
    'another worker makes the call if the worker is killed before its call reaches the processor',
    withConnection,
    async (_, { onTestFinished }) => {
      const worker = await survivorOrNewWorker()
      const payment = await authorize(deployment)
      await worker.end()
      // Accepts connections and forwards nothing.
      const black_hole = createServer((socket) => socket.on('error', () => {}).resume()).listen(
        0,
        '127.0.0.1',
      )
      onTestFinished(() => void black_hole.close())
      await once(black_hole, 'listening')
      const called = once(black_hole, 'connection')
      const killed = await deployment.startWorker({
        STRIPE_API_BASE: `http://127.0.0.1:${(black_hole.address() as AddressInfo).port}`,
      })
      const response = capture(deployment, payment)
      await called
      await killed.end()
      // On a slow machine the lease may already have expired.
      expect(['running', 'ready']).toContain((await captureJob(deployment, payment)).state)
      await expireLease(deployment, payment)
      const next = await deployment.startWorker()
      expect(await response).toMatchObject(done)
      paid.push(payment)
      await expectNothingLost(deployment, paid)
      survivor = next
    },
  )

  test.for(onlyWithQueue('redis', queue))(
    'the next worker repeats the call with the same idempotency key if the worker is killed during its call',
    withConnection,
    async () => {
      const worker = await survivorOrNewWorker()
      const payment = await authorize(deployment)
      const hold = await blockCaptures(deployment, payment, 'before')
      const response = capture(deployment, payment)
      await hold.hit()
      await worker.end()
      await expireLease(deployment, payment)
      const next = await deployment.startWorker()
      // The processor refuses the second call while the first is in progress, so the next worker retries.
      await until(
        'the next worker makes an attempt',
        async () => (await captureJob(deployment, payment)).attempt >= 2,
      )
      await hold.release()
      expect(await response).toMatchObject(done)
      paid.push(payment)
      await expectNothingLost(deployment, paid)
      survivor = next
    },
  )

  test.for(onlyWithQueue('postgres', queue))(
    'another worker completes the job if the worker is killed after the effect and before its commit',
    withConnection,
    async () => {
      const workers = [await survivorOrNewWorker(), await deployment.startWorker()]
      const payment = await authorize(deployment)
      const hold = await blockCaptures(deployment, payment, 'after')
      const response = capture(deployment, payment)
      await hold.hit()
      const [attempt] = await captureAttempts(deployment, payment)
      const [claimant, next] = attempt!.worker.endsWith(`/${workers[0]!.pid}`)
        ? workers
        : workers.toReversed()
      await claimant!.end()
      await expireLease(deployment, payment)
      await hold.release()
      expect(await response).toMatchObject(done)
      const attempts = await captureAttempts(deployment, payment)
      expect(attempts.map(({ outcome }) => outcome)).toEqual([null, 'done'])
      paid.push(payment)
      await expectNothingLost(deployment, paid)
      survivor = next
    },
  )

  test(
    'the waiting request is answered if the worker is killed right after its commit',
    withConnection,
    async () => {
      const worker = await survivorOrNewWorker()
      const payment = await authorize(deployment)
      const hold = await blockCaptures(deployment, payment, 'after')
      const response = capture(deployment, payment)
      await hold.hit()
      // A frozen Redis accepts neither the published state nor the acknowledgment of the wake-up.
      deployment.redis?.signal('SIGSTOP')
      await hold.release()
      await until(
        'the job is committed',
        async () => (await captureJob(deployment, payment)).state === 'succeeded',
      )
      await worker.end()
      deployment.redis?.signal('SIGCONT')
      expect(await response).toMatchObject(done)
      const next = await deployment.startWorker()
      paid.push(payment, await pay(deployment.client))
      await expectNothingLost(deployment, paid)
      const attempts = await captureAttempts(deployment, payment)
      expect(attempts.map(({ outcome }) => outcome)).toEqual(['done'])
      survivor = next
    },
  )

  test(
    'a worker that is frozen beyond its lease writes nothing when it continues',
    withConnection,
    async () => {
      const frozen = await survivorOrNewWorker()
      const payment = await authorize(deployment)
      const hold = await blockCaptures(deployment, payment, 'after')
      const response = capture(deployment, payment)
      await hold.hit()
      frozen.signal('SIGSTOP')
      await expireLease(deployment, payment)
      await hold.release()
      const next = await deployment.startWorker()
      expect(await response).toMatchObject(done)
      const { sql } = deployment
      const readState = async () => [
        await sql`select * from payments where id = ${payment.payment_id}`,
        await sql`select * from jobs where resource_id = ${payment.payment_id} order by id`,
        await sql`select id, type from events where subject_id = ${payment.payment_id} order by id`,
        await captureAttempts(deployment, payment),
      ]
      const before = await readState()
      frozen.signal('SIGCONT')
      // A worker that settles its job never logs the fenced write below: the test fails here at once instead of at its
      // time limit.
      const ended = await until('the frozen worker ends its attempt', () =>
        frozen
          .output()
          .split('\n')
          .find((line) =>
            ['an attempt ended', 'payment.capture', payment.payment_id].every((part) => line.includes(part)),
          ),
      )
      expect(JSON.parse(ended)).toMatchObject({ outcome: 'fenced' })
      expect(JSON.parse(await frozen.waitForLine('a late write was fenced'))).toMatchObject({
        job: 'payment.capture',
        attempt: 1,
        request_id: expect.any(String),
        tenant_id: deployment.tenant_id,
        payment_id: payment.payment_id,
      })
      expect(await readState()).toEqual(before)
      paid.push(payment)
      await expectNothingLost(deployment, paid)
      await frozen.end()
      survivor = next
    },
  )

  test.for(onlyWithQueue('redis', queue))(
    'a single worker that is frozen beyond its lease completes its job when it continues',
    withConnection,
    async () => {
      const worker = await survivorOrNewWorker()
      const payment = await authorize(deployment)
      const hold = await blockCaptures(deployment, payment, 'after')
      const response = capture(deployment, payment)
      await hold.hit()
      worker.signal('SIGSTOP')
      await hold.release()
      await until('the lease is lapsed', async () => (await captureJob(deployment, payment)).lapsed === true)
      worker.signal('SIGCONT')
      expect(await response).toMatchObject(done)
      paid.push(payment)
      await expectNothingLost(deployment, paid)
      survivor = worker
    },
  )

  test.for(onlyWithQueue('postgres', queue))(
    'a worker that receives SIGTERM completes its job and closes its database sessions',
    withConnection,
    async () => {
      const worker = await survivorOrNewWorker()
      const payment = await authorize(deployment)
      const hold = await blockCaptures(deployment, payment, 'after')
      const response = capture(deployment, payment)
      await hold.hit()
      worker.signal('SIGTERM')
      await worker.waitForLine('stopping')
      await hold.release()
      expect(await response).toMatchObject(done)
      expect(await worker.ended).toEqual({ code: 0, signal: null })
      const attempts = await captureAttempts(deployment, payment)
      expect(attempts.map(({ outcome }) => outcome)).toEqual(['done'])
      const sessions = await deployment.sql`
      select from pg_stat_activity where datname = current_database() and application_name = 'sluice-worker'`
      expect(sessions).toHaveLength(0)
      const next = await deployment.startWorker()
      paid.push(payment, await pay(deployment.client))
      await expectNothingLost(deployment, paid)
      survivor = next
    },
  )
})

// This test uses one queue backend only: the torture runs cover both backends.
test.concurrent('a job whose first five workers die is completed, and takes effect once', async ({
  onTestFinished,
}) => {
  const deployment = await createDeployment({ queue: 'redis' })
  onTestFinished(() => deployment.close())
  await deployment.startApi()
  let worker = await deployment.startWorker()
  const payment = await authorize(deployment)
  const hold = await blockCaptures(deployment, payment, 'after', 5)
  expect(await capture(deployment, payment, 'respond-async')).toMatchObject({ status: 202 })
  for (let kills = 1; kills <= 5; kills++) {
    expect(await hold.hit(kills)).toBe(kills)
    await worker.end()
    await expireLease(deployment, payment)
    await hold.release()
    worker = await deployment.startWorker()
  }
  expect(await capture(deployment, payment)).toMatchObject(done)
  const attempts = await captureAttempts(deployment, payment)
  // On a slow machine a worker may claim the job too late and give it back. Such an attempt has the outcome
  // `returned`, and does not make the call.
  const attempted = attempts.map(({ outcome }) => outcome).filter((outcome) => outcome !== 'returned')
  expect(attempted).toEqual([...Array<null>(5).fill(null), 'done'])
  await expectNothingLost(deployment, [payment])
})
