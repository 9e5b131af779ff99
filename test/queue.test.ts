// The queue on real Redis and PostgreSQL servers: wake-ups, published states of jobs, and outages of the backend.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type Socket, connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRedisBackend, Queue as BullQueue } from 'bullmq'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { openPostgres } from '#queue/postgres.ts'
import { type PublishedState, type Queue, type QueueConfig, migrateQueue, openQueue } from '#queue/queue.ts'
import { redisPrefix } from '#queue/settings.ts'
import { createWorker } from '#queue/worker.ts'
import { startPostgres } from '#start/postgres.ts'
import { type EmbeddedRedis, startRedis } from '#start/redis.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startProxy } from '#test/proxy.ts'

type Server = {
  config: QueueConfig
  port: number
  /** Stops the server as a crash would. */
  kill(): Promise<void>
  /** Starts the server again on the same port. A Redis is empty after that. */
  start(): Promise<void>
  remove(): Promise<void>
}

const POLLING = { timeout: 20_000, interval: 20 }
const open_queues: Queue[] = []

afterEach(async () => {
  await Promise.all(open_queues.splice(0).map((queue) => queue.close()))
})

function openTestQueue(config: QueueConfig): { queue: Queue; dropped: () => number } {
  let wakeups = 0
  const queue = openQueue(config, { log: () => {}, onDrop: (n) => (wakeups += n), process_id: randomUUID() })
  open_queues.push(queue)
  return { queue, dropped: () => wakeups }
}

/** Consumes a queue. Returns the ids of the performed jobs. */
function collectPerformed(queue: Queue, name: string): string[] {
  const performed: string[] = []
  queue.consume({ queue: name, concurrency: 10, perform: async (id) => void performed.push(id) })
  return performed
}

/** Allows the names of the test queues, which the schema refuses. */
async function allowAnyQueue({ redis_url, database_url }: QueueConfig): Promise<void> {
  if (redis_url) return
  const client = new Client({ connectionString: database_url })
  await client.connect()
  await client.query('alter table bullmq.job drop constraint sluice_queues')
  await client.end()
}

const wakeUpFor = (queue: string) => ({ id: randomUUID(), queue })

/**
 * True if a new wake-up is performed. Sends several wake-ups, because the first ones may be lost at the end of an
 * outage.
 */
async function performsWakeups(queue: Queue, name: string, performed: string[]): Promise<boolean> {
  const sent_ids = new Set<string>()
  const deadline = Date.now() + POLLING.timeout
  while (Date.now() < deadline) {
    const wakeup = wakeUpFor(name)
    sent_ids.add(wakeup.id)
    queue.wake([wakeup])
    await sleep(50)
    if (performed.some((id) => sent_ids.has(id))) return true
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
    await allowAnyQueue(server.config)
  })

  afterAll(() => server.remove())

  test('performs wake-ups in order', async () => {
    const { queue } = openTestQueue(server.config)
    expect(queue.backend).toBe(backend)
    const received: unknown[] = []
    queue.consume({ queue: 'heard', concurrency: 1, perform: async (id) => void received.push(id) })
    const [first, second] = [randomUUID(), randomUUID()]

    queue.wake([{ id: first, queue: 'heard' }])
    queue.wake([{ id: second, queue: 'heard' }])

    await expect.poll(() => received, POLLING).toEqual([first, second])
  })

  test('performs each of a thousand wake-ups, within its concurrency limit', async () => {
    const { queue } = openTestQueue(server.config)
    const performed = new Set<string>()
    let concurrent = 0
    let max_concurrent = 0
    queue.consume({
      queue: 'many',
      concurrency: 20,
      async perform(id) {
        concurrent += 1
        max_concurrent = Math.max(max_concurrent, concurrent)
        await new Promise((resolve) => setImmediate(resolve))
        performed.add(id)
        concurrent -= 1
      },
    })
    const wakeups = Array.from({ length: 1_000 }, () => wakeUpFor('many'))

    for (const wakeup of wakeups) queue.wake([wakeup])

    // On a busy machine some wake-ups may expire; the callers send those wake-ups again.
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
    expect(max_concurrent).toBeLessThanOrEqual(20)
  })

  test('continues with other wake-ups after a handler has thrown', async () => {
    const { queue } = openTestQueue(server.config)
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

    await expect.poll(() => performed.length === 2, POLLING).toBe(true)
    expect(performed).toEqual(wakeups.map(({ id }) => id))
  })

  test('delivers published states to the subscribers in every process', async () => {
    const [worker, api] = [openTestQueue(server.config).queue, openTestQueue(server.config).queue]
    const received: PublishedState[] = []
    const own: PublishedState[] = []
    await api.subscribe((states) => received.push(...states))
    await worker.subscribe((states) => own.push(...states))
    const states = Array.from({ length: 1_000 }, () => ({ id: randomUUID(), state: 'succeeded' }))

    for (const each of states) worker.publish([each])

    await expect.poll(() => received.length === 1_000 && own.length === 1_000, POLLING).toBe(true)
    expect(received).toEqual(states)
  })

  test('waits for running handlers when it is closed', async () => {
    const { queue } = openTestQueue(server.config)
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
    await expect.poll(() => events, POLLING).toEqual(['started'])

    const closed = consumer.close().then(() => events.push('closed'))
    gate.resolve()
    await closed

    expect(events).toEqual(['started', 'finished', 'closed'])
  })

  test('performs later wake-ups after a restart of the consumer', async () => {
    const { queue } = openTestQueue(server.config)
    const performed: string[] = []
    const consumer = queue.consume({
      queue: 'restarted',
      concurrency: 2,
      perform: async (id) => void performed.push(id),
    })
    expect(await performsWakeups(queue, 'restarted', performed)).toBe(true)

    await consumer.restart()

    expect(await performsWakeups(queue, 'restarted', performed)).toBe(true)
  })

  test('does not wait when it sends during an outage, counts the wake-ups as dropped, and performs wake-ups after the outage', async () => {
    const { queue, dropped } = openTestQueue(server.config)
    const performed = collectPerformed(queue, 'outage')
    const received: PublishedState[] = []
    await queue.subscribe((states) => received.push(...states))
    expect(await performsWakeups(queue, 'outage', performed)).toBe(true)

    await whileDown(server, async () => {
      await expect.poll(() => queue.isDown(), POLLING).toBe(true)
      const dropped_before = dropped()
      queue.wake([wakeUpFor('outage'), wakeUpFor('outage')])
      queue.publish([{ id: randomUUID(), state: 'failed' }])
      await expect.poll(dropped, POLLING).toBeGreaterThanOrEqual(dropped_before + 2)
    })

    expect(await performsWakeups(queue, 'outage', performed)).toBe(true)
    await expect.poll(() => queue.isDown(), POLLING).toBe(false)
    const after = { id: randomUUID(), state: 'succeeded' }
    queue.publish([after])
    await expect.poll(() => received, POLLING).toContainEqual(after)
  })

  test('works after an outage, even in a process that started during the outage', async () => {
    const { queue, performed } = await whileDown(server, async () => {
      const { queue, dropped } = openTestQueue(server.config)
      const performed = collectPerformed(queue, 'boot')
      await queue.subscribe(() => {})
      queue.wake([wakeUpFor('boot')])
      await expect.poll(() => queue.isDown(), POLLING).toBe(true)
      await expect.poll(dropped, POLLING).toBe(1)
      return { queue, performed }
    })

    expect(await performsWakeups(queue, 'boot', performed)).toBe(true)
    await expect.poll(() => queue.isDown(), POLLING).toBe(false)
  })

  test('can be closed during an outage, even if it was never connected', async () => {
    const used = openTestQueue(server.config).queue
    const performed = collectPerformed(used, 'ended')
    await used.subscribe(() => {})
    expect(await performsWakeups(used, 'ended', performed)).toBe(true)

    await whileDown(server, async () => {
      await expect.poll(() => used.isDown(), POLLING).toBe(true)
      const unused = openTestQueue(server.config).queue
      collectPerformed(unused, 'ended')
      await unused.subscribe(() => {})

      await Promise.all([used.close(), unused.close()])
    })
  })

  test('counts a silent server as down, and closes without waiting for the server', async () => {
    const proxy = await startSilentProxy(server)
    onTestFinished(() => proxy.close())
    const { queue, dropped } = openTestQueue(proxy.config)
    const performed = collectPerformed(queue, 'silent')
    await queue.subscribe(() => {})
    expect(await performsWakeups(queue, 'silent', performed)).toBe(true)
    const closing = openTestQueue(proxy.config).queue
    const performed_before = collectPerformed(closing, 'silent-too')
    await closing.subscribe(() => {})
    expect(await performsWakeups(closing, 'silent-too', performed_before)).toBe(true)

    proxy.silence()
    queue.wake([wakeUpFor('silent')])
    await expect.poll(() => queue.isDown(), POLLING).toBe(true)
    await expect.poll(dropped, POLLING).toBeGreaterThan(0)
    await closing.close()
    proxy.resume()

    expect(await performsWakeups(queue, 'silent', performed)).toBe(true)
    await expect.poll(() => queue.isDown(), POLLING).toBe(false)
  })
})

test('a connection to PostgreSQL that becomes silent is reported to the queue there', async () => {
  const server = await launchPostgres()
  onTestFinished(() => server.remove())
  const proxy = await startProxy(server.config.database_url)
  onTestFinished(() => proxy.close())
  const ignore = () => {}
  const signals = { onLost: ignore, warn: ignore, changed: ignore, failed: ignore }
  const reports = { open: 0, closed: 0 }
  const open = openPostgres(server.config, { ...signals, onSilence: () => (reports.open += 1) })
  onTestFinished(() => open.close())
  const closed = openPostgres(server.config, { ...signals, onSilence: () => (reports.closed += 1) })
  await closed.close()
  const sql = connectDatabase(proxy.url, { max: 1, application_name: 'test' })
  onTestFinished(() => sql.end({ timeout: 1 }))
  await sql`select 1`
  expect(reports).toEqual({ open: 0, closed: 0 })
  proxy.freeze()
  await expect.poll(() => reports).toEqual({ open: 1, closed: 0 })
})

describe('the queue on a faulty Redis', () => {
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

  test('drops wake-ups that another program has sent, whatever their content', async () => {
    const { queue } = openTestQueue(server.config)
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
    const performed = collectPerformed(queue, 'forged')
    expect(await performsWakeups(queue, 'forged', performed)).toBe(true)
    await expect.poll(() => forger.getJobCountByTypes('wait', 'active', 'delayed', 'failed'), POLLING).toBe(0)
    expect(performed.filter((id) => forged.some((data) => JSON.stringify(data).includes(id)))).toEqual([])
  })

  test('pauses after a fetch that is refused at once, so that everything else goes on', async () => {
    let fetches = 0
    const factory: typeof createRedisBackend = (...args) => {
      const backend = createRedisBackend(...args)
      backend.moveToActive = () => {
        fetches += 1
        // The endless loop would not end with the test.
        return fetches > 1_000 ? new Promise(() => {}) : Promise.reject(new Error('connect ETIMEDOUT'))
      }
      return backend
    }
    const connection = redis.duplicate({ maxRetriesPerRequest: null })
    const worker = createWorker(
      { queue: 'refused', concurrency: 1, perform: async () => {} },
      { connection, prefix: redisPrefix('refused'), skipVersionCheck: true },
      factory,
      () => {},
    )
    onTestFinished(async () => {
      connection.disconnect()
      await worker.close(true)
    })
    await expect.poll(() => fetches, POLLING).toBeGreaterThan(1)
    expect(fetches).toBeLessThan(10)
  })

  test('drops messages that are not states of jobs', async () => {
    const { queue } = openTestQueue(server.config)
    const received: PublishedState[] = []
    await queue.subscribe((states) => received.push(...states))
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
    await expect.poll(() => received, POLLING).toEqual([published])
  })

  test('reports that it is full if no worker consumes it, until it is emptied', async () => {
    const { queue } = openTestQueue(server.config)
    const waiting = '{sluice:deep}:deep:wait'
    expect(queue.full('deep')).toBe(false)
    await redis.rpush(waiting, ...Array.from({ length: 10_001 }, String))
    await expect.poll(() => queue.full('deep'), POLLING).toBe(true)
    await redis.del(waiting)
    await expect.poll(() => queue.full('deep'), POLLING).toBe(false)
  })

  test('works after Redis is flushed, even while a wake-up is performed', async () => {
    const { queue } = openTestQueue(server.config)
    const gate = Promise.withResolvers<void>()
    const performed: string[] = []
    const blocked = wakeUpFor('wiped')
    queue.consume({
      queue: 'wiped',
      concurrency: 2,
      async perform(id) {
        if (id === blocked.id) await gate.promise
        performed.push(id)
      },
    })
    queue.wake([blocked])
    expect(await performsWakeups(queue, 'wiped', performed)).toBe(true)

    await redis.flushall()

    expect(await performsWakeups(queue, 'wiped', performed)).toBe(true)
    gate.resolve()
    await expect.poll(() => performed.includes(blocked.id), POLLING).toBe(true)
    expect(await performsWakeups(queue, 'wiped', performed)).toBe(true)
  })

  test('loads its scripts again after Redis has flushed them', async () => {
    const { queue } = openTestQueue(server.config)
    const performed = collectPerformed(queue, 'forgetful')
    expect(await performsWakeups(queue, 'forgetful', performed)).toBe(true)

    await redis.script('FLUSH')

    expect(await performsWakeups(queue, 'forgetful', performed)).toBe(true)
  })

  test.each([
    {
      problem: 'refuses writes as a replica',
      begin: ['replicaof', '127.0.0.1', '1'],
      end: ['replicaof', 'no', 'one'],
    },
    {
      problem: 'is out of memory',
      begin: ['config', 'set', 'maxmemory', '1'],
      end: ['config', 'set', 'maxmemory', '0'],
    },
  ] as const)(
    'reports that it is down while Redis $problem',
    async ({ begin, end }) => {
      const { queue, dropped } = openTestQueue(server.config)
      const performed = collectPerformed(queue, 'refused')
      expect(await performsWakeups(queue, 'refused', performed)).toBe(true)

      await redis.call(begin[0], ...begin.slice(1))
      await expect.poll(() => queue.isDown(), POLLING).toBe(true)
      const dropped_before = dropped()
      queue.wake([wakeUpFor('refused')])
      expect(dropped()).toBe(dropped_before + 1)

      await redis.call(end[0], ...end.slice(1))
      expect(await performsWakeups(queue, 'refused', performed)).toBe(true)
      await expect.poll(() => queue.isDown(), POLLING).toBe(false)
    },
    60_000,
  )
})

async function whileDown<T>(server: Server, scenario: () => Promise<T>): Promise<T> {
  await server.kill()
  try {
    return await scenario()
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
  const folder = await createTemporaryFolder()
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

/**
 * Starts a proxy to the server. `silence` stops all data: open connections stay open, and new connections are accepted.
 */
async function startSilentProxy(
  to: Server,
): Promise<{ config: QueueConfig; silence(): void; resume(): void; close(): void }> {
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
  const throughProxy = (url: string) => url.replace(`:${to.port}`, `:${port}`)
  const { redis_url, database_url } = to.config
  return {
    config: { redis_url: redis_url && throughProxy(redis_url), database_url: throughProxy(database_url) },
    silence() {
      silent = true
      for (const socket of sockets) socket.pause()
    },
    resume() {
      silent = false
      for (const socket of sockets) socket.resume()
    },
    close() {
      gate.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
