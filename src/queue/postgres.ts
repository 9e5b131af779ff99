// The backend on PostgreSQL, in BullMQ's own schema: for installations without Redis.
import { PostgresConnection, PostgresQueueBackend, Queue, createPostgresBackend } from 'bullmq'
import { Client } from 'pg'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Backend, BackendSignals, Listener, RunningWorker, WorkerStart } from './backend.ts'
import { toJobs, type WakeUpData } from './wakeup-messages.ts'
import { onSilentConnection } from '#core/pool.ts'
import { KEEPALIVE_SETTINGS, SESSION_SETTINGS } from '#core/postgres/settings.ts'
import { withTimeout } from '#core/timeout.ts'
import { wakeupOptions, close_limit_ms, defaultSchema, ping_interval_ms } from './settings.ts'
import { clientOptions, DatabaseStream } from './postgres-stream.ts'
import { createWorker } from './worker.ts'

export type PostgresAddress = { database_url: string; schema?: string }

/** All versions use one channel: during a deployment they receive each other's messages. */
const channel = 'sluice_outcomes'

/** Sent when a session starts. */
const settings = Object.entries({
  transaction_timeout: SESSION_SETTINGS.transaction_timeout,
  ...KEEPALIVE_SETTINGS,
})
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(' ')

type PostgresQueue = Queue<WakeUpData, void, string, WakeUpData, void, string, PostgresQueueBackend>
type Connected = { connection: PostgresConnection; queueNamed: (name: string) => PostgresQueue }

export function openPostgres(address: PostgresAddress, signals: BackendSignals): Backend {
  const sockets = createSockets()
  const pool = createPool(address, sockets, signals)
  const queueNamed = async (name: string) => (await pool.connected()).queueNamed(name)
  // The connections on which workers listen send nothing, so they do not show that they are silent.
  const stopWatching = onSilentConnection(signals.onSilence)

  return {
    name: 'postgres',
    // A longer limit than on Redis: if the database is slow for wake-ups, it is slow for job rows too.
    limit_ms: 1_000,
    accepted: null,
    max_message_bytes: 7_900,
    async addWakeUps(name, wakeups) {
      const queue = await queueNamed(name)
      await queue.addBulk(toJobs(wakeups))
    },
    bullQueue: queueNamed,
    depth: async (name) => await (await queueNamed(name)).getWaitingCount(),
    async publish(messages) {
      const { connection } = await pool.connected()
      await connection.pool.query('select pg_notify($1, message) from unnest($2::text[]) message', [
        channel,
        messages,
      ])
    },
    keepNewest: async () => null,
    async probe() {
      const { connection } = await pool.connected()
      await connection.pool.query('select 1')
    },
    // The pool itself drops a connection whose query timed out.
    reconnect: () => {},
    // BullMQ's listening connection sends nothing by itself, so it does not detect a lost server: only a new worker
    // receives wake-ups again.
    worker_outlives_outage: false,
    startWorker: (options) => startWorker(address, options, signals.failed),
    listen: (onMessage) => listen(address, onMessage, signals.failed),
    async close() {
      stopWatching()
      await pool.close()
      sockets.destroy()
    },
  }
}

/** The pool that all queues share. */
function createPool(address: PostgresAddress, sockets: Sockets, signals: BackendSignals) {
  let connecting: Promise<Connected> | null = null

  async function connect(): Promise<Connected> {
    const connection = new PostgresConnection(poolOptions(address, sockets, { max: 4, query_timeout: 2_000 }))
    connection.on('error', (error) => {
      signals.failed(error)
      signals.changed()
    })
    try {
      await connection.waitUntilReady()
    } catch (error) {
      void connection.close().catch(signals.failed)
      throw error
    }
    return {
      connection,
      queueNamed: createQueues(connection, () => poolOptions(address, sockets, {}), signals),
    }
  }

  return {
    /**
     * BullMQ does not reconnect if its first attempt to connect fails: so this connection is dropped, and the next
     * call opens a new one.
     */
    connected(): Promise<Connected> {
      connecting ??= connect().catch((error: unknown) => {
        connecting = null
        throw error
      })
      return connecting
    },
    async close(): Promise<void> {
      const open = await connecting?.catch(() => null)
      if (open) await withTimeout(open.connection.close(), close_limit_ms).catch(signals.failed)
    },
  }
}

/** Returns a function that returns a queue by its name, and opens the queue on the first call. */
function createQueues(
  connection: PostgresConnection,
  optionsOf: () => ReturnType<typeof poolOptions>,
  signals: BackendSignals,
): (name: string) => PostgresQueue {
  const queues = new Map<string, PostgresQueue>()
  return (name) => {
    const existing = queues.get(name)
    if (existing !== undefined) return existing
    const options = { connection: optionsOf(), defaultJobOptions: wakeupOptions, skipMetasUpdate: true }
    const queue = new Queue<WakeUpData, void, string, WakeUpData, void, string, PostgresQueueBackend>(
      name,
      options,
      (queue_name: string) => new PostgresQueueBackend(connection, queue_name, options, false),
    )
    queue.on('error', signals.failed)
    queues.set(name, queue)
    return queue
  }
}

function poolOptions(
  { database_url, schema = defaultSchema }: PostgresAddress,
  sockets: Sockets,
  more: { max?: number; query_timeout?: number },
) {
  return {
    ...sockets.track(clientOptions(database_url)),
    schema,
    connectionTimeoutMillis: 2_000,
    keepAlive: true,
    // Wake-ups may be lost, so commits do not wait for the disk: this triples the throughput.
    options: `${settings} -c synchronous_commit=off`,
    ...more,
  }
}

type ClientOptions = ReturnType<typeof clientOptions>
type Sockets = { track: (options: ClientOptions) => ClientOptions; destroy: () => void }

/**
 * The sockets of database clients. Ending a client waits for the server, so the socket of a silent server is
 * destroyed.
 */
function createSockets(): Sockets {
  const sockets = new Set<DatabaseStream>()
  return {
    track: (options) => ({
      ...options,
      stream() {
        const socket = options.stream()
        sockets.add(socket)
        socket.once('close', () => sockets.delete(socket))
        return socket
      },
    }),
    destroy() {
      for (const socket of sockets) socket.destroy()
    },
  }
}

function startWorker(
  address: PostgresAddress,
  options: WorkerStart,
  failed: (error: unknown) => void,
): RunningWorker {
  const stopping = new AbortController()
  const sockets = createSockets()
  const create = () => {
    const connection = poolOptions(address, sockets, { max: 4, query_timeout: 5_000 })
    return createWorker(options, { connection, autorun: false }, createPostgresBackend, failed)
  }
  let worker: ReturnType<typeof create> | null = null
  const started = start().catch(failed)

  async function start(): Promise<void> {
    while (!stopping.signal.aborted) {
      const candidate = create()
      try {
        await candidate.waitUntilReady()
        worker = candidate
        candidate.run().catch(failed)
        return
      } catch (error) {
        failed(error)
        await candidate.close(true)
        await sleep(500, undefined, { signal: stopping.signal }).catch(() => {})
      }
    }
  }

  return {
    async close() {
      stopping.abort()
      await started
      await worker?.close()
    },
    async terminate() {
      stopping.abort()
      await worker?.stopRenewing()
      sockets.destroy()
    },
  }
}

function listen(
  address: PostgresAddress,
  onMessage: (message: string) => void,
  failed: (error: unknown) => void,
): Listener {
  const stopping = new AbortController()
  const sockets = createSockets()
  const opened = Promise.withResolvers<void>()
  let listening_since = Infinity
  const ended = keepListening()

  async function keepListening(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await listenOnce()
      } catch (error) {
        if (!stopping.signal.aborted) failed(error)
      }
      listening_since = Infinity
      await sleep(250, undefined, { signal: stopping.signal }).catch(() => {})
    }
  }

  /** Listens until the connection fails or the listener is closed. */
  async function listenOnce(): Promise<void> {
    const client = new Client({
      ...sockets.track(clientOptions(address.database_url)),
      options: settings,
      connectionTimeoutMillis: 2_000,
      query_timeout: 2_000,
      keepAlive: true,
    })
    const broken = new AbortController()
    const interrupted = AbortSignal.any([stopping.signal, broken.signal])
    client.on('error', () => {})
    client.on('end', () => {
      // Set at once: while the listener counts as connected, waiting requests poll only once a second.
      listening_since = Infinity
      broken.abort()
    })
    client.on('notification', ({ payload = '' }) => onMessage(payload))
    try {
      await client.connect()
      await client.query(`listen ${channel}`)
      listening_since = performance.now()
      opened.resolve()
      while (!interrupted.aborted) {
        await sleep(ping_interval_ms, undefined, { signal: interrupted }).catch(() => {})
        await client.query('select 1')
      }
    } finally {
      await withTimeout(client.end(), close_limit_ms).catch(() => {})
      sockets.destroy()
    }
  }

  return {
    opened: opened.promise,
    listeningSince: () => listening_since,
    async close() {
      stopping.abort()
      await withTimeout(ended, close_limit_ms).catch(() => {})
    },
  }
}
