// APIs that are killed or stopped: what was accepted is done, and the same key leads back to it.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { onlyWithQueue } from '#test/backends.ts'
import { authorize, capture, captureAttempts, captureJob, holdCaptures } from '#test/captures.ts'
import { freshKey } from '#test/client.ts'
import { expectNothingLost, pay, startLoad, type CapturedPayment } from '#test/load.ts'
import { until } from '#test/process.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { startProxy } from '#test/proxy.ts'

const withConnection = { concurrent: false, timeout: 180_000 }

describe.concurrent.each(['redis', 'postgres'] as const)('with bells on %s', (queue) => {
  let deployment: Deployment
  const paid: CapturedPayment[] = []

  beforeAll(async () => {
    deployment = await createDeployment({ queue, webhooks: true })
    await deployment.startWorker()
  })
  afterAll(async () => await deployment.close())

  test(
    'an API killed between its commit and its bell: the job is found, and the key leads to it',
    withConnection,
    async ({ onTestFinished }) => {
      const proxy = await startProxy(deployment.env.DATABASE_URL!)
      onTestFinished(() => proxy.close())
      const doomed = await deployment.startApi({ DATABASE_URL: proxy.url })
      const key = freshKey()
      proxy.withholdAnswersTo(key)
      const unanswered = deployment.client
        .post('/v1/payments', {
          idempotency_key: key,
          amount_minor: 1500,
          currency: 'USD',
          method: 'card',
          payment_method: 'pm_card_visa',
        })
        .catch(() => 'no answer')
      const payment_id = await until('the row is there', async () => {
        const [row] = await deployment.sql<
          { id: string }[]
        >`select id from payments where idempotency_key = ${key}`
        return row?.id
      })
      await doomed.end()
      expect(await unanswered).toBe('no answer')
      await until('it is authorized without anybody asking', async () => {
        const rows =
          await deployment.sql`select from payments where id = ${payment_id} and status = 'authorized'`
        return rows.length > 0
      })

      const api = await deployment.startApi()
      const body = { amount_minor: 1500, currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }
      const again = await deployment.client.post('/v1/payments', { idempotency_key: key, ...body })
      expect(again).toMatchObject({ status: 201, body: { id: payment_id, status: 'authorized' } })
      expect(again.headers.get('idempotent-replayed')).toBe('true')
      const captured = await deployment.client.post(`/v1/payments/${payment_id}/capture`)
      expect(captured).toMatchObject({ status: 200, body: { status: 'captured' } })
      paid.push({ key, payment_id, amount_minor: 1500, answers: [] })
      await expectNothingLost(deployment, paid)
      await api.end()
    },
  )

  test.for(onlyWithQueue('postgres', queue))(
    'connections to Postgres lost between a commit and its answer: 503, and the key leads to the payment',
    withConnection,
    async (_, { onTestFinished }) => {
      const proxy = await startProxy(deployment.env.DATABASE_URL!)
      onTestFinished(() => proxy.close())
      const api = await deployment.startApi({ DATABASE_URL: proxy.url })
      const key = freshKey()
      proxy.withholdAnswersTo(key)
      const paying = pay(deployment.client, key)
      await until('the row is there', async () => {
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
    'APIs killed again and again under 50 clients: one payment a key, each captured once',
    withConnection,
    async () => {
      let api = await deployment.startApi()
      const load = startLoad(deployment.client, { clients: 50, pause_ms: 1000 })
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
    'an API told to stop answers waiting callers, exits with 0 and leaves nothing behind',
    withConnection,
    async () => {
      const api = await deployment.startApi()
      const payment = await authorize(deployment)
      // Before the effect: else the processor's notification would settle it and answer who waits.
      const hold = await holdCaptures(deployment, payment, 'before')
      const answer = capture(deployment, payment)
      await hold.hit()
      api.signal('SIGTERM')
      expect(await answer).toMatchObject({ status: 202, body: { id: payment.payment_id } })
      expect(await api.ended).toEqual({ code: 0, signal: null })
      await until('its sessions have ended', async () => {
        const sessions = await deployment.sql`
        select from pg_stat_activity where datname = current_database() and application_name like 'sluice-api%'`
        return sessions.length === 0
      })
      await hold.release()
      await until(
        'the work goes on',
        async () => (await captureJob(deployment, payment)).state === 'succeeded',
      )
      expect(await captureAttempts(deployment, payment)).toHaveLength(1)

      const next = await deployment.startApi()
      expect(await capture(deployment, payment)).toMatchObject({ status: 200, body: { status: 'captured' } })
      paid.push(payment)
      await expectNothingLost(deployment, paid)
      await next.end()
    },
  )

  test.for(onlyWithQueue('postgres', queue))(
    'an API told to stop under load finishes every request that it has begun; a second one beside it is refused',
    withConnection,
    async () => {
      const api = await deployment.startApi()
      await expect(deployment.startApi()).rejects.toThrow(/API_PORT: port \d+ is in use/)
      const load = startLoad(deployment.client, { clients: 20, pause_ms: 400 })
      await load.untilPaid(20)
      expect(await api.end('SIGTERM')).toEqual({ code: 0, signal: null })
      const next = await deployment.startApi()
      paid.push(...(await load.stop()))
      await expectNothingLost(deployment, paid)
      await next.end()
    },
  )
})
