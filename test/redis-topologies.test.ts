// Redis as a Cluster and under Sentinels: the same work, also while a server dies and another takes its place.
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

/** The keys of a queue share this tag, and in a Cluster a server. */
const keysOf = (queue: string) => `{sluice:${queue}}`

function open(redis_url: string): Queue {
  const queue = openQueue(
    { redis_url, database_url: 'postgres://unused' },
    { log: () => {}, process_id: randomUUID() },
  )
  onTestFinished(() => queue.close())
  return queue
}

/** Rings until one of the bells was performed and the end of its job heard: the first may meet what is left of an outage. */
async function untilItWorks(
  queue: Queue,
  name: string,
  performed: Set<string>,
  heard: Set<string>,
): Promise<void> {
  const will_wake: string[] = []
  await until('a bell is performed and the end of its job heard', async () => {
    const id = randomUUID()
    will_wake.push(id)
    queue.wake([{ id, queue: name }])
    await sleep(100)
    return will_wake.some((one) => performed.has(one) && heard.has(one))
  })
}

/** A name whose queue is on the same server as `queue`. */
async function nameBeside(redis: RedisDeployment, queue: string): Promise<string> {
  const port = await redis.primaryOf(keysOf(queue))
  for (let tries = 0; ; tries++) {
    if ((await redis.primaryOf(keysOf(`beside-${tries}`))) === port) return `beside-${tries}`
  }
}

describe.each([
  { place: 'a Cluster', start: startRedisCluster },
  { place: 'a primary under Sentinels', start: startRedisSentinels },
])('Redis as $place', { timeout: 180_000 }, ({ start }) => {
  let redis: RedisDeployment
  beforeAll(async () => {
    redis = await start()
  }, 180_000)
  afterAll(async () => await redis?.stop())

  // Only a Cluster redirects.
  test.each(start === startRedisCluster ? ['clients that are redirected while they disconnect'] : [])(
    '%s connect again',
    async () => {
      // Now and then one does not meet the moment.
      const clients = Array.from({ length: 4 }, () => connectRedis(redis.url, producerConnection) as Cluster)
      for (const client of clients) {
        client.on('error', () => {})
        onTestFinished(() => client.disconnect())
      }
      await until('all are ready', () => clients.every(({ status }) => status === 'ready'))
      for (const client of clients) {
        await Promise.all(client.nodes('master').map((node) => node.ping()))
        // The command goes to a server that has not its slot, one of the first.
        client.slots.fill(client.slots.at(-1)!)
        const redirected = client.set('{3}', '').catch(() => {})
        client.disconnect(true)
        await redirected
      }
      await until('all are ready again', () => clients.every(({ status }) => status === 'ready'))
      const again = await Promise.all(clients.map((client) => client.set('{3}', '')))
      expect(again).toEqual(['OK', 'OK', 'OK', 'OK'])
    },
  )

  test('payments are answered throughout, and bells and published states work again after a failover', async () => {
    const world = await createWorld({ queue: 'postgres', env: { QUEUE: 'redis', REDIS_URL: redis.url } })
    onTestFinished(() => world.close())
    const queue = open(redis.url)
    const [performed, heard] = [new Set<string>(), new Set<string>()]
    await queue.subscribe((states) => states.forEach(({ id }) => heard.add(id)))
    const other = open(redis.url)
    // In a Cluster, one whose keys are where those of the payments are.
    const name = await nameBeside(redis, QUEUES[0])
    other.consume({
      queue: name,
      concurrency: 10,
      async perform(id) {
        performed.add(id)
        other.publish([{ id, state: 'succeeded' }])
      },
    })
    await untilItWorks(queue, name, performed, heard)
    const answers = (await pay(world.client)).answers

    await redis.killPrimaryOf(keysOf(QUEUES[0]))
    while ((await redis.primaryOf(keysOf(QUEUES[0]))) === undefined)
      answers.push(...(await pay(world.client)).answers)
    await until('the queue is up again', () => !queue.isDown() && !other.isDown())
    await untilItWorks(queue, name, performed, heard)
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
])('the address %s is read', (text, place) => {
  expect(parseRedisUrl(text)).toEqual(place)
})
