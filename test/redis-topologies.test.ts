// Redis as a Cluster and under Sentinels: queues and published states work, even after a failover.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { parseRedisUrl } from '#core/redis-url.ts'
import { QUEUES } from '#core/config/queues.ts'
import { connectRedis } from '#queue/connection.ts'
import { openQueue, type Queue } from '#queue/queue.ts'
import { producerConnection } from '#queue/settings.ts'
import { checkInvariants } from '#test/books.ts'
import { pay } from '#test/load.ts'
import { until } from '#test/process.ts'
import { startRedisCluster, startRedisSentinels, type RedisDeployment } from '#test/redis-places.ts'
import { createWorld } from '#test/world.ts'

/** The hash tag of a queue's keys, which places the keys on one server of a Cluster. */
const keysOf = (queue: string) => `{sluice:${queue}}`

function open(redis_url: string): Queue {
  const queue = openQueue(
    { redis_url, database_url: 'postgres://unused' },
    { log: () => {}, process_id: randomUUID() },
  )
  onTestFinished(() => queue.close())
  return queue
}

/**
 * Sends wake-ups until a wake-up is performed and the state of its job is received, because the first wake-ups may be
 * lost in an outage.
 */
async function awaitWorkingQueue(
  queue: Queue,
  name: string,
  performed: Set<string>,
  received: Set<string>,
): Promise<void> {
  const sent: string[] = []
  await until('a wake-up is performed and the state of its job is received', async () => {
    const id = randomUUID()
    sent.push(id)
    queue.wake([{ id, queue: name }])
    await sleep(100)
    return sent.some((each) => performed.has(each) && received.has(each))
  })
}

/** The name of a queue on the same server as `queue`. */
async function findColocatedQueue(redis: RedisDeployment, queue: string): Promise<string> {
  const port = await redis.primaryOf(keysOf(queue))
  for (let tries = 0; ; tries++) {
    if ((await redis.primaryOf(keysOf(`colocated-${tries}`))) === port) return `colocated-${tries}`
  }
}

describe.each([
  { topology: 'a Cluster', start: startRedisCluster },
  { topology: 'a primary under Sentinels', start: startRedisSentinels },
])('Redis as $topology', ({ start }) => {
  let redis: RedisDeployment
  beforeAll(async () => {
    redis = await start()
  })
  afterAll(async () => await redis?.stop())

  // Only a Cluster redirects clients.
  test.each(start === startRedisCluster ? ['clients that are redirected while they disconnect'] : [])(
    '%s reconnect',
    async () => {
      // Several clients are needed, because not every client is redirected while it disconnects.
      const clients = Array.from({ length: 4 }, () => connectRedis(redis.url, producerConnection) as Cluster)
      for (const client of clients) {
        client.on('error', () => {})
        onTestFinished(() => client.disconnect())
      }
      await until('all clients are ready', () => clients.every(({ status }) => status === 'ready'))
      for (const client of clients) {
        await Promise.all(client.nodes('master').map((node) => node.ping()))
        // The command goes to a server that does not have the command's slot.
        client.slots.fill(client.slots.at(-1)!)
        const redirected = client.set('{3}', '').catch(() => {})
        client.disconnect(true)
        await redirected
      }
      await until('all clients are ready again', () => clients.every(({ status }) => status === 'ready'))
      const answers = await Promise.all(clients.map((client) => client.set('{3}', '')))
      expect(answers).toEqual(['OK', 'OK', 'OK', 'OK'])
    },
  )

  test('payments are answered during a failover, and wake-ups and published states work after the failover', async () => {
    const world = await createWorld({ queue: 'postgres', env: { QUEUE: 'redis', REDIS_URL: redis.url } })
    onTestFinished(() => world.close())
    const queue = open(redis.url)
    const [performed, received] = [new Set<string>(), new Set<string>()]
    await queue.subscribe((states) => states.forEach(({ id }) => received.add(id)))
    const other = open(redis.url)
    // In a Cluster, the name of a queue on the server that has the payments queue.
    const name = await findColocatedQueue(redis, QUEUES[0])
    other.consume({
      queue: name,
      concurrency: 10,
      async perform(id) {
        performed.add(id)
        other.publish([{ id, state: 'succeeded' }])
      },
    })
    await awaitWorkingQueue(queue, name, performed, received)
    const answers = (await pay(world.client)).answers

    await redis.killPrimaryOf(keysOf(QUEUES[0]))
    while ((await redis.primaryOf(keysOf(QUEUES[0]))) === undefined)
      answers.push(...(await pay(world.client)).answers)
    await until('both queues are up', () => !queue.isDown() && !other.isDown())
    await awaitWorkingQueue(queue, name, performed, received)
    answers.push(...(await pay(world.client)).answers)

    expect(new Set(answers)).toEqual(new Set([200, 201]))
    await world.drain()
    await checkInvariants(world)
  })
})

test.each([
  [
    'redis://127.0.0.1:6379',
    { kind: 'single', nodes: [{ host: '127.0.0.1', port: 6379 }], tls: false, db: 0 },
  ],
  ['redis://[::1]/2', { kind: 'single', nodes: [{ host: '::1', port: 6379 }], tls: false, db: 2 }],
  [
    'rediss://:p%40ss@cache.example.com:6380',
    {
      kind: 'single',
      nodes: [{ host: 'cache.example.com', port: 6380 }],
      tls: true,
      db: 0,
      password: 'p@ss',
    },
  ],
  [
    'redis+sentinel://me:secret@a,b:26380/sluice',
    {
      kind: 'sentinel',
      nodes: [
        { host: 'a', port: 26379 },
        { host: 'b', port: 26380 },
      ],
      tls: false,
      username: 'me',
      password: 'secret',
      primary: 'sluice',
    },
  ],
  [
    'rediss+cluster://a:7000,b:7001',
    {
      kind: 'cluster',
      nodes: [
        { host: 'a', port: 7000 },
        { host: 'b', port: 7001 },
      ],
      tls: true,
    },
  ],
  ['redis://a:1,b:2', undefined],
  ['redis://a/queue', undefined],
  ['redis+cluster://a:7000/0', undefined],
  ['redis+sentinel://a:26379', undefined],
  ['redis://a:70000', undefined],
  ['redis://a:', undefined],
  ['redis://%zz:x@a', undefined],
  ['postgres://a', undefined],
  ['', undefined],
])('the address %s is parsed, or rejected if it is invalid', (text, address) => {
  expect(parseRedisUrl(text)).toEqual(address)
})
