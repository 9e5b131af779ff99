// APIs that are killed or stopped: all accepted work finishes, and the idempotency key returns the result.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { onlyWithQueue } from '#test/backends.ts'
import { authorize, capture, captureAttempts, captureJob, blockCaptures } from '#test/captures.ts'
import { freshKey } from '#test/client.ts'
import { expectNothingLost, pay, startLoad, type CapturedPayment } from '#test/load.ts'
import { until } from '#test/process.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { startProxy } from '#test/proxy.ts'

const withConnection = { concurrent: false }

describe.concurrent.each(['redis', 'postgres'] as const)('with wake-ups on %s', (queue) => {
  let deployment: Deployment
  const paid: CapturedPayment[] = []

  beforeAll(async () => {
    deployment = await createDeployment({ queue, webhooks: true })
    await deployment.startWorker()
  })
  afterAll(async () => await deployment.close())

  test(
    'a job whose API is killed between the commit and the wake-up runs, and its idempotency key replays the result',
    withConnection,
    async ({ onTestFinished }) => {
      const proxy = await startProxy(deployment.env.DATABASE_URL!)
      onTestFinished(() => proxy.close())
      const killed_api = await deployment.startApi({ DATABASE_URL: proxy.url })
      const key = freshKey()
      proxy.withholdAnswersTo(key)
      const lost_response = deployment.client
        .post('/v1/payments', {
          idempotency_key: key,
          amount_minor: 1500,
          currency: 'USD',
          method: 'card',
          payment_method: 'pm_card_visa',
        })
        .catch(() => 'no response')
      const payment_id = await until('the payment is stored', async () => {
        const [row] = await deployment.sql<
          { id: string }[]
        >`select id from payments where idempotency_key = ${key}`
        return row?.id
      })
      await killed_api.end()
      expect(await lost_response).toBe('no response')
      await until('the payment is authorized without a request', async () => {
        const rows =
          await deployment.sql`select from payments where id = ${payment_id} and status = 'authorized'`
        return rows.length > 0
      })

      const api = await deployment.startApi()
      const body = { amount_minor: 1500, currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }
      const replayed = await deployment.client.post('/v1/payments', { idempotency_key: key, ...body })
      expect(replayed).toMatchObject({ status: 201, body: { id: payment_id, status: 'authorized' } })
      expect(replayed.headers.get('idempotent-replayed')).toBe('true')
      const captured = await deployment.client.post(`/v1/payments/${payment_id}/capture`)
      expect(captured).toMatchObject({ status: 200, body: { status: 'captured' } })
      paid.push({ key, payment_id, amount_minor: 1500, answers: [] })
      await expectNothingLost(deployment, paid)
      await api.end()
    },
  )

  test.for(onlyWithQueue('postgres', queue))(
    'if all PostgreSQL connections are lost between a commit and its response, the API answers 503 and the idempotency key replays the payment',
    withConnection,
    async (_, { onTestFinished }) => {
      const proxy = await startProxy(deployment.env.DATABASE_URL!)
      onTestFinished(() => proxy.close())
      const api = await deployment.startApi({ DATABASE_URL: proxy.url })
      const key = freshKey()
      proxy.withholdAnswersTo(key)
      const paying = pay(deployment.client, key)
      await until('the payment is stored', async () => {
        const rows = await deployment.sql`select from payments where idempotency_key = ${key}`
        return rows.length > 0
      })
      proxy.withholdAnswersTo()
      proxy.cut()
      const settled = await paying
      expect(settled.answers[0]).toBe(503)
      paid.push(settled)
      await expectNothingLost(deployment, paid)
      await api.end()
    },
  )

  test.for(onlyWithQueue('redis', queue))(
    'APIs that are killed repeatedly under load store one payment per key and capture each payment once',
    withConnection,
    async () => {
      let api = await deployment.startApi()
      const load = startLoad(deployment.client, { clients: 15, pause_ms: 1000 })
      for (let kills = 1; kills <= 4; kills++) {
        await sleep(200 + Math.random() * 800)
        await api.end()
        api = await deployment.startApi()
      }
      paid.push(...(await load.stop()))
      expect(paid.filter(({ answers }) => answers.includes(0)).length).toBeGreaterThan(0)
      await expectNothingLost(deployment, paid)
      await api.end()
    },
  )

  test(
    'a stopped API answers waiting callers, exits with 0 and closes its sessions',
    withConnection,
    async () => {
      const api = await deployment.startApi()
      const payment = await authorize(deployment)
      // The capture is blocked before its effect. After the effect, the processor's notification would settle the job
      // and answer the caller.
      const hold = await blockCaptures(deployment, payment, 'before')
      const response = capture(deployment, payment)
      await hold.hit()
      api.signal('SIGTERM')
      expect(await response).toMatchObject({ status: 202, body: { id: payment.payment_id } })
      expect(await api.ended).toEqual({ code: 0, signal: null })
      await until('the sessions of the API are closed', async () => {
        const sessions = await deployment.sql`
        select from pg_stat_activity where datname = current_database() and application_name like 'sluice-api%'`
        return sessions.length === 0
      })
      await hold.release()
      await until(
        'the capture succeeds',
        async () => (await captureJob(deployment, payment)).state === 'succeeded',
      )
      expect(await captureAttempts(deployment, payment)).toHaveLength(1)

      const next_api = await deployment.startApi()
      expect(await capture(deployment, payment)).toMatchObject({ status: 200, body: { status: 'captured' } })
      paid.push(payment)
      await expectNothingLost(deployment, paid)
      await next_api.end()
    },
  )

  test.for(onlyWithQueue('postgres', queue))(
    'an API stopped under load finishes every started request, and a second API on its port does not start',
    withConnection,
    async () => {
      const api = await deployment.startApi()
      await expect(deployment.startApi()).rejects.toThrow(/API_PORT: port \d+ is in use/)
      const load = startLoad(deployment.client, { clients: 10, pause_ms: 400 })
      await load.untilPaid(10)
      expect(await api.end('SIGTERM')).toEqual({ code: 0, signal: null })
      const next_api = await deployment.startApi()
      paid.push(...(await load.stop()))
      await expectNothingLost(deployment, paid)
      await next_api.end()
    },
  )
})
