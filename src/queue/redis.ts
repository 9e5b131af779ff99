// The backend on Redis or Valkey.
import { Queue, createRedisBackend } from 'bullmq'
import { Cluster, type RedisOptions } from 'ioredis'
import { QUEUES } from '#core/config/queues.ts'
import { everyTick } from '#core/ticks.ts'
import { createAcceptedStream } from './accepted.ts'
import type { Backend, BackendSignals, Listener, RunningWorker, WorkerStart } from './backend.ts'
import { toJobs, type WakeUpData } from './wakeup-messages.ts'
import { addressesOf, connectListener, connectRedis, type RedisClient } from './connection.ts'
import {
  wakeupOptions,
  type FindAcceptedKeys,
  blocking_socket_timeout_ms,
  close_limit_ms,
  consumerConnection,
  consumer_retry_ms,
  ping_interval_ms,
  producerConnection,
  redisPrefix,
  subscriberConnection,
} from './settings.ts'
import { keepNewest } from './witness.ts'
import { createWorker } from './worker.ts'

/** All versions use one channel: during a deployment they receive each other's messages. */
const channel = 'sluice:outcomes'

export function openRedis(
  url: string,
  process_id: string,
  signals: BackendSignals,
  accepted: { most: number; findKeys: FindAcceptedKeys },
): Backend {
  const client = connectRedis(url, { ...producerConnection, connectionName: `sluice:${process_id}` })
  client.on('error', signals.failed)
  client.on('close', () => signals.onLost(`no Redis answers at ${addressesOf(url)}`))
  client.on('ready', signals.changed)
  client.once('ready', () => void warnOfEviction(client, signals))
  // Wake-ups that are sent while the process starts wait until the first connection is open or has failed.
  const tried = new Promise<void>((resolve) => client.once('ready', resolve).once('close', resolve))
  const queues = new Map<string, Queue<WakeUpData, void>>()

  function queueNamed(name: string): Queue<WakeUpData, void> {
    let queue = queues.get(name)
    if (!queue) {
      queue = new Queue<WakeUpData, void>(name, {
        connection: client,
        prefix: redisPrefix(name),
        defaultJobOptions: wakeupOptions,
        // Without these options, the queue never works if Redis is down when the process starts.
        skipVersionCheck: true,
        skipWaitingForReady: true,
        skipMetasUpdate: true,
      })
      queue.on('error', signals.failed)
      queues.set(name, queue)
    }
    return queue
  }

  return {
    name: 'redis',
    limit_ms: 100,
    max_message_bytes: 60_000,
    accepted:
      accepted.most === 0 ? null : createAcceptedStream(client, tried, { ...accepted, warn: signals.warn }),
    async addWakeUps(name, wakeups) {
      await tried
      await queueNamed(name).addBulk(toJobs(wakeups))
    },
    async bullQueue(name) {
      await tried
      return queueNamed(name)
    },
    depth: (name) => queueNamed(name).getWaitingCount(),
    async publish(messages) {
      await tried
      await Promise.all(messages.map((message) => client.publish(channel, message)))
    },
    async keepNewest(name, text, invalid) {
      await tried
      return await keepNewest(client, name, text, invalid)
    },
    async probe() {
      // In a Cluster each queue may be on another server.
      const probed = client.isCluster ? QUEUES : QUEUES.slice(0, 1)
      await Promise.all(
        probed.map((queue) => client.set(`${redisPrefix(queue)}:probe`, process_id, 'PX', 10_000)),
      )
    },
    reconnect() {
      // A client that is connecting has its own time limits. In ioredis 6.0 a Cluster client that
      // gets `disconnect(true)` during its first lookup of the servers stays in `disconnecting` for ever.
      if (client.status === 'ready') client.disconnect(true)
    },
    // In a Cluster BullMQ reconnects its blocking connection in a way that may hang for half a minute.
    worker_outlives_outage: !client.isCluster,
    startWorker: (options) => startWorker(url, options, signals.failed),
    listen: (onMessage) => listen(url, process_id, onMessage, signals.failed),
    async close() {
      await Promise.all([...queues.values()].map((queue) => queue.close()))
      client.disconnect()
    },
  }
}

/** Without `noeviction` a full Redis drops wake-ups without an error. Some servers do not report their policy. */
async function warnOfEviction(client: RedisClient, { warn }: BackendSignals): Promise<void> {
  const servers = client instanceof Cluster ? client.nodes('master') : [client]
  const answers = await Promise.all(servers.map((server) => server.info('memory').catch(() => '')))
  const policy = answers
    .map((info) => /^maxmemory_policy:(\S+)/m.exec(info)?.[1])
    .find((policy) => policy !== undefined && policy !== 'noeviction')
  if (policy !== undefined)
    warn(
      `REDIS_URL: this Redis has maxmemory-policy ${policy} and may drop queued wake-ups. Set it to noeviction: CONFIG SET maxmemory-policy noeviction, and in redis.conf`,
    )
}

function startWorker(url: string, options: WorkerStart, failed: (error: unknown) => void): RunningWorker {
  let closing = false
  const open = (options: RedisOptions) => {
    const client = connectRedis(url, {
      ...consumerConnection,
      ...options,
      // A closing worker does not reconnect: pending commands are rejected.
      retryStrategy: () => (closing ? null : consumer_retry_ms),
    })
    client.on('error', failed)
    clients.push(client)
    return client
  }
  const clients: RedisClient[] = []
  const client = open({})
  // BullMQ duplicates this client for its blocking connection, and cannot close the duplicate while Redis is down: so
  // the duplicate is opened and closed here.
  client.duplicate = ((
    ...args: { connectionName?: string; redisOptions?: { connectionName?: string } }[]
  ) => {
    const options = args.find((each) => each !== undefined)
    const connectionName = options?.connectionName ?? options?.redisOptions?.connectionName
    return open({ socketTimeout: blocking_socket_timeout_ms, ...(connectionName && { connectionName }) })
  }) as RedisClient['duplicate']
  const worker = createWorker(
    options,
    { connection: client, prefix: redisPrefix(options.queue), skipVersionCheck: true },
    createRedisBackend,
    failed,
  )

  return {
    async close() {
      closing = true
      // Waits until each connection is open or has ended: `worker.close` waits for ever for a connection between two
      // connection attempts.
      await Promise.all(clients.map(untilDecided))
      await worker.close()
      client.disconnect()
    },
    async terminate() {
      await worker.stopRenewing()
      for (const each of clients) each.disconnect()
    },
  }
}

/** Resolves when the connection is usable or has ended, after a second at most. */
function untilDecided(client: RedisClient): Promise<void> {
  return new Promise((resolve) => {
    if (client.status === 'ready' || client.status === 'end') return resolve()
    const timer = setTimeout(decided, close_limit_ms / 2)
    client.once('ready', decided).once('end', decided)
    function decided() {
      clearTimeout(timer)
      client.off('ready', decided).off('end', decided)
      resolve()
    }
  })
}

function listen(
  url: string,
  process_id: string,
  onMessage: (message: string) => void,
  failed: (error: unknown) => void,
): Listener {
  const client = connectListener(url, {
    ...subscriberConnection,
    connectionName: `sluice:${process_id}:outcomes`,
  })
  const opened = Promise.withResolvers<void>()
  let listening_since = Infinity

  // Replaces ioredis's `autoResubscribe`, which leaves a rejection unhandled.
  async function subscribe(): Promise<void> {
    try {
      await client.subscribe(channel)
      listening_since = performance.now()
      opened.resolve()
    } catch (error) {
      failed(error)
      client.disconnect(true)
    }
  }

  client.on('error', failed)
  client.on('ready', () => void subscribe())
  client.on('close', () => {
    listening_since = Infinity
  })
  client.on('message', (_channel, message) => onMessage(message))
  const stopPings = everyTick(() => {
    // If no answer arrives, the socket is closed (socketTimeout).
    if (client.status === 'ready') client.ping().catch(() => {})
  }, ping_interval_ms)

  return {
    opened: opened.promise,
    listeningSince: () => listening_since,
    async close() {
      stopPings()
      client.disconnect()
    },
  }
}
