// Tests that work survives a wiped, killed or missing Redis.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { expectNothingLost, pay, startLoad, type CapturedPayment } from '#test/load.ts'
import { until } from '#test/process.ts'
import { createDeployment } from '#test/deployment.ts'

/** The statuses of failed requests; 0 for a broken connection. */
function failedStatuses(paid: CapturedPayment[]): number[] {
  return paid.flatMap(({ answers }) => answers).filter((status) => ![200, 201, 202].includes(status))
}

describe.concurrent('Redis', () => {
  test('is wiped repeatedly under load, and every request succeeds', async ({ onTestFinished }) => {
    const deployment = await createDeployment({ queue: 'redis', webhooks: true })
    onTestFinished(() => deployment.close())
    await Promise.all([deployment.startApi(), deployment.startWorker(), deployment.startWorker()])
    const redis = new Redis(deployment.redis!.url)
    onTestFinished(() => redis.disconnect())

    const load = startLoad(deployment.client, { clients: 15, pause_ms: 1000 })
    for (let wipes = 1; wipes <= 50; wipes++) {
      await sleep(100)
      await redis.flushall()
    }
    const paid = await load.stop()
    expect(failedStatuses(paid)).toEqual([])
    await expectNothingLost(deployment, paid)
  })

  test('is killed and restarts empty repeatedly under load, and every request succeeds', async ({
    onTestFinished,
  }) => {
    const deployment = await createDeployment({ queue: 'redis', webhooks: true })
    onTestFinished(() => deployment.close())
    await Promise.all([deployment.startApi(), deployment.startWorker()])
    const load = startLoad(deployment.client, { clients: 10, pause_ms: 1000 })
    for (let kills = 1; kills <= 4; kills++) {
      await sleep(500 + Math.random() * 500)
      await deployment.redis!.kill()
      await sleep(Math.random() * 500)
      await deployment.redis!.start()
    }
    const paid = await load.stop()
    expect(failedStatuses(paid)).toEqual([])
    await expectNothingLost(deployment, paid)
  })

  test('is absent at the start of all processes, and wake-ups work after it starts', async ({
    onTestFinished,
  }) => {
    const deployment = await createDeployment({ queue: 'redis', webhooks: true, redis_up: false })
    onTestFinished(() => deployment.close())
    const [api, worker] = await Promise.all([deployment.startApi(), deployment.startWorker()])
    const paid = [await pay(deployment.client), await pay(deployment.client)]
    expect(paid.map(({ answers }) => answers)).toEqual([
      [201, 200],
      [201, 200],
    ])

    await deployment.redis!.start()
    await Promise.all([api.waitForLine('the queue is up again'), worker.waitForLine('the queue is up again')])
    // A message on this channel shows that the queue works again: only a worker that performed a job publishes on it.
    const redis = new Redis(deployment.redis!.url)
    onTestFinished(() => redis.disconnect())
    const published: string[] = []
    await redis.subscribe('sluice:outcomes')
    redis.on('message', (_channel, message) => published.push(message))
    paid.push(await pay(deployment.client))
    await until('an outcome is published', () => published.length > 0)
    await expectNothingLost(deployment, paid)
  })
})
