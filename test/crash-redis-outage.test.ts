// Captures during a Redis outage that is longer than all timeouts: the responses contain the outcome, not 202.
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { expectNothingLost, startLoad } from '#test/load.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'

/**
 * Longer than leases and than the locks and reconnections of BullMQ. `npm run torture -- --fault redis-away` takes ten
 * minutes.
 */
const OUTAGE_S = Number(process.env.SLUICE_OUTAGE_S ?? 12)

type Redis = NonNullable<Deployment['redis']>

const outages: {
  name: string
  begin: (redis: Redis) => Promise<void> | void
  end: (redis: Redis) => Promise<void> | void
}[] = [
  {
    name: 'killed and empty after its restart',
    begin: (redis) => redis.kill(),
    end: (redis) => redis.start(),
  },
  {
    name: 'frozen with open connections',
    begin: (redis) => redis.signal('SIGSTOP'),
    end: (redis) => redis.signal('SIGCONT'),
  },
]

describe.concurrent.each(outages)(`for ${OUTAGE_S} s Redis is $name`, ({ begin, end }) => {
  test(
    'captures return their outcome instead of 202',
    { timeout: OUTAGE_S * 1000 + 60_000 },
    async ({ onTestFinished }) => {
      const deployment = await createDeployment({ queue: 'redis', webhooks: true })
      onTestFinished(() => deployment.close())
      const [api, worker] = await Promise.all([deployment.startApi(), deployment.startWorker()])
      const load = startLoad(deployment.client, { clients: 3, pause_ms: 300 })
      await sleep(1_000)
      await begin(deployment.redis!)
      await Promise.all([
        api.waitForLine('jobs are claimed from PostgreSQL'),
        worker.waitForLine('jobs are claimed from PostgreSQL'),
      ])
      const paid_before = load.paid.length
      await sleep(OUTAGE_S * 1000)
      expect(load.paid.length).toBeGreaterThan(paid_before)
      await end(deployment.redis!)
      await Promise.all([
        api.waitForLine('the queue is up again'),
        worker.waitForLine('the queue is up again'),
      ])
      await sleep(1_000)
      const paid = await load.stop()
      expect(new Set(paid.map(({ answers }) => answers.join(' ')))).toEqual(new Set(['201 200']))
      await expectNothingLost(deployment, paid)
    },
  )
})
