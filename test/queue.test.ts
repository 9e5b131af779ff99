// The queue over real servers: bells, published states, and what becomes of both while the backend is away.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type Socket, connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Queue as BullQueue } from 'bullmq'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type PublishedState, type Queue, type QueueConfig, migrateQueue, openQueue } from '#queue/queue.ts'
import { redisPrefix } from '#queue/settings.ts'
import { startPostgres } from '#start/postgres.ts'
import { type EmbeddedRedis, startRedis } from '#start/redis.ts'
import { makeFolder } from '#test/folders.ts'

type Server = {
  config: QueueConfig
  port: number
  /** Ends it as a crash would. */
  kill(): Promise<void>
  /** Brings it back on the same port; a Redis is empty then. */
  start(): Promise<void>
  remove(): Promise<void>
}

const patience = { timeout: 20_000, interval: 20 }
const open_queues: Queue[] = []

afterEach(async () => {
  await Promise.all(open_queues.splice(0).map((queue) => queue.close()))
})

function open(config: QueueConfig): { queue: Queue; dropped: () => number } {
  let wakeups = 0
  const queue = openQueue(config, { log: () => {}, onDrop: (n) => (wakeups += n), process_id: randomUUID() })
  open_queues.push(queue)
  return { queue, dropped: () => wakeups }
}

/** What a worker has performed, of a queue that nobody else uses. */
function performIn(queue: Queue, name: string): string[] {
  const performed: string[] = []
  queue.consume({ queue: name, concurrency: 10, perform: async (id) => void performed.push(id) })
  return performed
}

/** These stories have queues of their own, which the product would refuse. */
async function takeAnyQueue({ redis_url, database_url }: QueueConfig): Promise<void> {
  if (redis_url) return
  const client = new Client({ connectionString: database_url })
  await client.connect()
  await client.query('alter table bullmq.job drop constraint sluice_queues')
  await client.end()
}

const wakeUpFor = (queue: string) => ({ id: randomUUID(), queue })

/** Whether a new bell is performed; it is rung with others after it, since the first may meet what is left of an outage. */
async function answers(queue: Queue, name: string, performed: string[]): Promise<boolean> {
  const will_wake = new Set<string>()
  const deadline = Date.now() + patience.timeout
  while (Date.now() < deadline) {
    const wakeup = wakeUpFor(name)
    will_wake.add(wakeup.id)
    queue.wake([wakeup])
    await sleep(50)
    if (performed.some((id) => will_wake.has(id))) return true
  }
  return false
}

describe.each([
  { backend: 'redis', launch: launchRedis },
  { backend: 'postgres', launch: launchPostgres },
] as const)('the queue on $backend', ({ backend, launch }) => {
  let server: Server

  beforeAll(async () => {
    server = await launch()
    await migrateQueue(server.config)
    await migrateQueue(server.config)
    await takeAnyQueue(server.config)
  }, 180_000)

  afterAll(() => server.remove())

  test('performs what is rung', async () => {
    const { queue } = open(server.config)
    expect(queue.backend).toBe(backend)
    const heard: unknown[] = []
    queue.consume({ queue: 'heard', concurrency: 1, perform: async (id) => void heard.push(id) })
    const [first, second] = [randomUUID(), randomUUID()]

    queue.wake([{ id: first, queue: 'heard' }])
    queue.wake([{ id: second, queue: 'heard' }])

    await expect.poll(() => heard, patience).toEqual([first, second])
  })

  test('performs each of a thousand rings, never more at a time than it may', async () => {
    const { queue } = open(server.config)
    const performed = new Set<string>()
    let at_a_time = 0
    let most = 0
    queue.consume({
      queue: 'many',
      concurrency: 20,
      async perform(id) {
        at_a_time += 1
        most = Math.max(most, at_a_time)
        await new Promise((resolve) => setImmediate(resolve))
        performed.add(id)
        at_a_time -= 1
      },
    })
    const wakeups = Array.from({ length: 1_000 }, () => wakeUpFor('many'))

    for (const wakeup of wakeups) queue.wake([wakeup])

    // On a machine that is too busy some may be late and given up; whoever needs them rings again.
    const missing = () => wakeups.filter(({ id }) => !performed.has(id))
    await expect
      .poll(
        () => {
          queue.wake(missing())
          return missing()
        },
        { timeout: 20_000, interval: 1_000 },
      )
      .toEqual([])
    expect(most).toBeLessThanOrEqual(20)
  })

  test('a handler that throws does not affect other bells', async () => {
    const { queue } = open(server.config)
    const performed: string[] = []
    queue.consume({
      queue: 'throwing',
      concurrency: 1,
      async perform(id) {
        performed.push(id)
        throw new Error('a surprise')
      },
    })
    const wakeups = [wakeUpFor('throwing'), wakeUpFor('throwing')]

    queue.wake(wakeups)

    await expect.poll(() => performed.length === 2, patience).toBe(true)
    expect(performed).toEqual(wakeups.map(({ id }) => id))
  })

  test('published states reach the subscribers in every process', async () => {
    const [worker, api] = [open(server.config).queue, open(server.config).queue]
    const heard: PublishedState[] = []
    const own: PublishedState[] = []
    await api.subscribe((states) => heard.push(...states))
    await worker.subscribe((states) => own.push(...states))
    const states = Array.from({ length: 1_000 }, () => ({ id: randomUUID(), state: 'succeeded' }))

    for (const each of states) worker.publish([each])

    await expect.poll(() => heard.length === 1_000 && own.length === 1_000, patience).toBe(true)
    expect(heard).toEqual(states)
  })

  test('a close waits for what is being performed', async () => {
    const { queue } = open(server.config)
    const gate = Promise.withResolvers<void>()
    const events: string[] = []
    const consumer = queue.consume({
      queue: 'closing',
      concurrency: 2,
      async perform() {
        events.push('started')
        await gate.promise
        events.push('finished')
      },
    })
    queue.wake([wakeUpFor('closing')])
    await expect.poll(() => events, patience).toEqual(['started'])

    const closed = consumer.close().then(() => events.push('closed'))
    gate.resolve()
    await closed

    expect(events).toEqual(['started', 'finished', 'closed'])
  })

  test('a restarted consumer performs what is rung after it', async () => {
    const { queue } = open(server.config)
    const performed: string[] = []
    const consumer = queue.consume({
      queue: 'restarted',
      concurrency: 2,
      perform: async (id) => void performed.push(id),
    })
    expect(await answers(queue, 'restarted', performed)).toBe(true)

    await consumer.restart()

    expect(await answers(queue, 'restarted', performed)).toBe(true)
  })

  test('while the backend is down rings return at once and are counted; once it is back they are performed', async () => {
    const { queue, dropped } = open(server.config)
    const performed = performIn(queue, 'outage')
    const heard: PublishedState[] = []
    await queue.subscribe((states) => heard.push(...states))
    expect(await answers(queue, 'outage', performed)).toBe(true)

    await whileDown(server, async () => {
      await expect.poll(() => queue.isDown(), patience).toBe(true)
      const dropped_before = dropped()
      queue.wake([wakeUpFor('outage'), wakeUpFor('outage')])
      queue.publish([{ id: randomUUID(), state: 'failed' }])
      await expect.poll(dropped, patience).toBeGreaterThanOrEqual(dropped_before + 2)
    })

    expect(await answers(queue, 'outage', performed)).toBe(true)
    await expect.poll(() => queue.isDown(), patience).toBe(false)
    const after = { id: randomUUID(), state: 'succeeded' }
    queue.publish([after])
    await expect.poll(() => heard, patience).toContainEqual(after)
  }, 180_000)

  test('a process that starts while the backend is down works once it is up', async () => {
    const { queue, performed } = await whileDown(server, async () => {
      const { queue, dropped } = open(server.config)
      const performed = performIn(queue, 'boot')
      await queue.subscribe(() => {})
      queue.wake([wakeUpFor('boot')])
      await expect.poll(() => queue.isDown(), patience).toBe(true)
      await expect.poll(dropped, patience).toBe(1)
      return { queue, performed }
    })

    expect(await answers(queue, 'boot', performed)).toBe(true)
    await expect.poll(() => queue.isDown(), patience).toBe(false)
  }, 180_000)

  test('a close ends while the backend is down, also when it never was up', async () => {
    const used = open(server.config).queue
    const performed = performIn(used, 'ended')
    await used.subscribe(() => {})
    expect(await answers(used, 'ended', performed)).toBe(true)

    await whileDown(server, async () => {
      await expect.poll(() => used.isDown(), patience).toBe(true)
      const unused = open(server.config).queue
      performIn(unused, 'ended')
      await unused.subscribe(() => {})

      await Promise.all([used.close(), unused.close()])
    })
  }, 180_000)

  test('a silent server counts as away, and a close does not wait for it', async () => {
    const way = await silentWay(server)
    onTestFinished(() => way.close())
    const { queue, dropped } = open(way.config)
    const performed = performIn(queue, 'silent')
    await queue.subscribe(() => {})
    expect(await answers(queue, 'silent', performed)).toBe(true)
    const closing = open(way.config).queue
    const performed_before = performIn(closing, 'silent-too')
    await closing.subscribe(() => {})
    expect(await answers(closing, 'silent-too', performed_before)).toBe(true)

    way.silence()
    queue.wake([wakeUpFor('silent')])
    await expect.poll(() => queue.isDown(), patience).toBe(true)
    await expect.poll(dropped, patience).toBeGreaterThan(0)
    await closing.close()
    way.speak()

    expect(await answers(queue, 'silent', performed)).toBe(true)
    await expect.poll(() => queue.isDown(), patience).toBe(false)
  }, 180_000)
})

describe('the queue on a Redis in trouble', () => {
  let server: Server
  let redis: Redis

  beforeAll(async () => {
    server = await launchRedis()
    redis = new Redis(server.config.redis_url ?? '')
  })

  afterAll(async () => {
    redis.disconnect()
    await server.remove()
  })

  test('bells that are not ours are dropped, whatever they contain', async () => {
    const { queue } = open(server.config)
    const forger = new BullQueue('forged', { connection: redis, prefix: redisPrefix('forged') })
    onTestFinished(() => forger.close())
    const ids = (count: number) => Array.from({ length: count }, () => randomUUID())
    const forged: unknown[] = [
      {},
      null,
      'text',
      { ids: null },
      { ids: 'text' },
      { ids: [1] },
      { ids: ['not an id'] },
      { ids: [...ids(1), { id: ids(1)[0] }] },
      { ids: ids(10_000) },
      { ids: [], more: 'x'.repeat(5_000_000) },
    ]
    for (const data of forged) await forger.add('wakeups', data, { attempts: 1_000 })
    for (const text of ['{"ids":', 'x'.repeat(5_000_000)]) {
      const { id } = await forger.add('wakeups', {}, { attempts: 1_000 })
      await redis.hset(`${redisPrefix('forged')}:forged:${id}`, 'data', text)
    }
    const performed = performIn(queue, 'forged')
    expect(await answers(queue, 'forged', performed)).toBe(true)
    await expect
      .poll(() => forger.getJobCountByTypes('wait', 'active', 'delayed', 'failed'), patience)
      .toBe(0)
    expect(performed.filter((id) => forged.some((data) => JSON.stringify(data).includes(id)))).toEqual([])
  })

  test('messages that are not states of jobs are dropped, whatever they contain', async () => {
    const { queue } = open(server.config)
    const heard: PublishedState[] = []
    await queue.subscribe((states) => heard.push(...states))
    const id = randomUUID()
    const published = { id, state: 'succeeded' }
    for (const forged of [
      'text',
      '{}',
      JSON.stringify(published),
      JSON.stringify([
        { ...published, id: 'x'.repeat(1000) },
        { ...published, state: 'x'.repeat(1000) },
        { id },
      ]),
      JSON.stringify(Array.from({ length: 10_000 }, () => published)),
    ])
      await redis.publish('sluice:outcomes', forged)
    await redis.publish('sluice:outcomes', JSON.stringify([{ ...published, more: 1 }]))
    await expect.poll(() => heard, patience).toEqual([published])
  })

  test('a queue that no worker empties becomes full, until one does', async () => {
    const { queue } = open(server.config)
    const waiting = '{sluice:deep}:deep:wait'
    expect(queue.full('deep')).toBe(false)
    await redis.rpush(waiting, ...Array.from({ length: 10_001 }, String))
    await expect.poll(() => queue.full('deep'), patience).toBe(true)
    await redis.del(waiting)
    await expect.poll(() => queue.full('deep'), patience).toBe(false)
  })

  test('a wiped Redis takes rings as before, also while a bell is being performed', async () => {
    const { queue } = open(server.config)
    const gate = Promise.withResolvers<void>()
    const performed: string[] = []
    const held = wakeUpFor('wiped')
    queue.consume({
      queue: 'wiped',
      concurrency: 2,
      async perform(id) {
        if (id === held.id) await gate.promise
        performed.push(id)
      },
    })
    queue.wake([held])
    expect(await answers(queue, 'wiped', performed)).toBe(true)

    await redis.flushall()

    expect(await answers(queue, 'wiped', performed)).toBe(true)
    gate.resolve()
    await expect.poll(() => performed.includes(held.id), patience).toBe(true)
    expect(await answers(queue, 'wiped', performed)).toBe(true)
  })

  test('scripts that Redis forgot are sent again', async () => {
    const { queue } = open(server.config)
    const performed = performIn(queue, 'forgetful')
    expect(await answers(queue, 'forgetful', performed)).toBe(true)

    await redis.script('FLUSH')

    expect(await answers(queue, 'forgetful', performed)).toBe(true)
  })

  test.each([
    {
      trouble: 'refuses writes as a replica',
      begin: ['replicaof', '127.0.0.1', '1'],
      end: ['replicaof', 'no', 'one'],
    },
    {
      trouble: 'is out of memory',
      begin: ['config', 'set', 'maxmemory', '1'],
      end: ['config', 'set', 'maxmemory', '0'],
    },
  ] as const)(
    'a Redis that $trouble is away until it no longer does',
    async ({ begin, end }) => {
      const { queue, dropped } = open(server.config)
      const performed = performIn(queue, 'refused')
      expect(await answers(queue, 'refused', performed)).toBe(true)

      await redis.call(begin[0], ...begin.slice(1))
      await expect.poll(() => queue.isDown(), patience).toBe(true)
      const dropped_before = dropped()
      queue.wake([wakeUpFor('refused')])
      expect(dropped()).toBe(dropped_before + 1)

      await redis.call(end[0], ...end.slice(1))
      expect(await answers(queue, 'refused', performed)).toBe(true)
      await expect.poll(() => queue.isDown(), patience).toBe(false)
    },
    60_000,
  )
})

async function whileDown<T>(server: Server, story: () => Promise<T>): Promise<T> {
  await server.kill()
  try {
    return await story()
  } finally {
    await server.start()
  }
}

async function launchRedis(): Promise<Server> {
  let redis = await emptyRedis(0)
  return {
    config: { redis_url: redis.url, database_url: 'postgres://nowhere' },
    port: redis.port,
    kill: () => redis.kill(),
    async start() {
      redis = await emptyRedis(redis.port)
    },
    remove: () => redis.kill(),
  }
}

async function emptyRedis(port: number): Promise<EmbeddedRedis> {
  const redis = await startRedis({ data_dir: null, port, password: 'the-same-after-a-restart' })
  if (!redis) throw new Error('There is neither a redis-server nor a valkey-server on the PATH.')
  return redis
}

async function launchPostgres(): Promise<Server> {
  const folder = await makeFolder()
  const server = await startPostgres({ data_dir: folder.path, settings: { fsync: 'off' } })
  return {
    config: { redis_url: null, database_url: server.url },
    port: server.port,
    kill: () => server.kill(),
    start: () => server.restart('immediate'),
    async remove() {
      await server.stop()
      await folder.remove()
    },
  }
}

/** A way to the server on which everything stops when it is told to: connections stay, and new ones are made, but nothing comes. */
async function silentWay(
  to: Server,
): Promise<{ config: QueueConfig; silence(): void; speak(): void; close(): void }> {
  let silent = false
  const sockets = new Set<Socket>()
  const gate = createServer((near) => {
    const far = connect(to.port, '127.0.0.1')
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one)
      one.on('data', (data) => other.write(data))
      one.on('error', () => {})
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
      if (silent) one.pause()
    }
  })
  gate.listen(0, '127.0.0.1')
  await once(gate, 'listening')
  const address = gate.address()
  const port = typeof address === 'object' ? address?.port : 0
  const there = (url: string) => url.replace(`:${to.port}`, `:${port}`)
  const { redis_url, database_url } = to.config
  return {
    config: { redis_url: redis_url && there(redis_url), database_url: there(database_url) },
    silence() {
      silent = true
      for (const socket of sockets) socket.pause()
    },
    speak() {
      silent = false
      for (const socket of sockets) socket.resume()
    },
    close() {
      gate.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
