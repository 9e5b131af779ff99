// Settings of BullMQ, ioredis and PostgreSQL, and all time limits of the queue. The values were found by tests with
// servers that were killed, frozen and wiped.
import type { DefaultJobOptions } from 'bullmq'
import type { RedisOptions } from 'ioredis'

export type QueueConfig = {
  /** The URL of Redis or Valkey; null: BullMQ runs on PostgreSQL. */
  redis_url: string | null
  database_url: string
  /** The number of accepted requests that Redis keeps. Default: 0, none are recorded. */
  accepted_max?: number
  /** The schema of BullMQ's tables in PostgreSQL. Default: `bullmq`. */
  schema?: string
}

/** Returns the keys of accepted requests: the first signs, and all verify. Rejects if this process has none. */
export type FindAcceptedKeys = () => Promise<Buffer[]>

export type QueueHooks = {
  log: (level: 'debug' | 'info' | 'warn' | 'error', fields: Record<string, unknown>, message: string) => void
  /** Called with the number of dropped wake-ups; the sweep finds their jobs. */
  onDrop?: (wakeups: number) => void
  /** Finds the keys of accepted requests. Default: this process neither records nor reads them. */
  findAcceptedKeys?: FindAcceptedKeys
  /** Called with the number of accepted requests that could not be recorded. */
  onUnrecorded?: (requests: number) => void
  process_id: string
}

/** The time within which all pools of a process have found their silent connections. */
export const silence_found_ms = 20_000

/**
 * The intervals at which the backend is probed with a write: `probe_interval_ms` while the backend is used,
 * `idle_probe_interval_ms` after `idle_after_ms` without messages, and `down_probe_interval_ms` while it is down. If a
 * message fails, the backend is probed at once.
 */
export const probe_interval_ms = 1_000
export const idle_probe_interval_ms = 5_000
export const idle_after_ms = 5_000
export const down_probe_interval_ms = 250
/**
 * The time for which waiting requests poll after an outage, because states that were published during the outage are
 * lost.
 */
export const recovery_ms = 500
/** How long a close waits for a backend that does not answer. */
export const close_limit_ms = 2_000

/** How long a text that outlives the database may take to be stored. */
export const keep_limit_ms = 1_000

/** The maximum number of BullMQ jobs in one `addBulk`. 100 jobs take about 10 ms; the time limit is 100 ms. */
export const max_batch = 100
/**
 * The maximum number of wake-ups in one BullMQ job. A slow job delays the end of the BullMQ job, but not the start of
 * the other wake-ups in the BullMQ job.
 */
export const wakeups_per_job = 16
/** How long a wake-up may wait in its worker; after that it is dropped, and the sweep finds its job. */
export const wakeup_wait_ms = 60_000
/** The maximum number of wake-ups of a queue that wait for the current batch; further wake-ups are dropped. */
export const max_waiting = 20_000
/** How long accepted requests are gathered before they are recorded. One command for each would cost more. */
export const accepted_gather_ms = 25
/** How long a batch of accepted requests may take to be recorded: no caller waits for it. */
export const accepted_limit_ms = 5_000

/**
 * The maximum number of BullMQ jobs that wait in a queue: without a worker, their number must not grow without limit.
 * `depth_interval_ms`: the interval at which the depth is read.
 */
export const max_depth = 10_000
export const depth_interval_ms = 1_000

export const defaultSchema = 'bullmq'
/** The prefix of a queue's keys. The hash tag puts all keys of a queue into one slot of a Redis Cluster. */
export const redisPrefix = (queue: string) => `{sluice:${queue}}`

/**
 * The options of BullMQ jobs: finished jobs would only use memory, and BullMQ's retries would compete with the
 * retries in Postgres.
 */
export const wakeupOptions: DefaultJobOptions = { attempts: 1, removeOnComplete: true, removeOnFail: true }

export const workerSettings = {
  lockDuration: 10_000,
  // The interval at which BullMQ looks for the wake-ups of dead workers, in each queue. It redelivers them after two
  // intervals at most; the sweep claims the job row long before.
  stalledInterval: 30_000,
  // BullMQ must not fail a job whose workers died repeatedly: the limit of attempts is in the job's row in Postgres.
  maxStalledCount: 1_000_000,
  runRetryDelay: 500,
  // The seconds after which an idle worker polls; a new wake-up reaches it at once. BullMQ counts a silent connection
  // as lost a second later, so this is part of the recovery time after a restart of Redis.
  drainDelay: 3,
}

/** Errors of a reachable Redis that refuses commands at present. Redis scripts wrap these errors in other text. */
const unusable_reply = /\b(READONLY|MISCONF|OOM|LOADING|MASTERDOWN|NOREPLICAS|CLUSTERDOWN)\b/

const anyConnection = {
  connectTimeout: 2_000,
  // How long a dead peer may delay a disconnect.
  disconnectTimeout: 200,
  keepAlive: 5_000,
} satisfies RedisOptions

/**
 * The connection for wake-ups and publications. Commands fail at once while Redis is down. `commandTimeout` is the
 * limit of all commands; wake-ups have a shorter one.
 */
export const producerConnection: RedisOptions = {
  ...anyConnection,
  commandTimeout: 1_000,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 1,
  retryStrategy: () => 100,
  // After a failover, a new connection may reach the new primary.
  reconnectOnError: (error) => error.message.includes('READONLY'),
}

/** The two connections of a worker. Commands have no time limit, but a silent socket is replaced. */
export const consumerConnection: RedisOptions = {
  ...anyConnection,
  maxRetriesPerRequest: null,
  socketTimeout: 5_000,
  // BullMQ repeats a refused command at once. A reconnect adds a pause, and may reach the new primary.
  reconnectOnError: (error) => unusable_reply.test(error.message),
}
export const consumer_retry_ms = 250
/**
 * The delay before a command that a Cluster client refused is sent again. A probe sends one command for each queue: if
 * two queues are on one server, a command is refused while a new connection to the server opens. With a much longer
 * delay, the probe would exceed its time limit.
 */
export const cluster_retry_ms = 10
/** A Cluster client that still disconnects after this time hangs: `disconnectTimeout` is shorter. */
export const disconnecting_limit_ms = 500
/**
 * The socket timeout of the connection that waits for wake-ups: BullMQ waits for `drainDelay` seconds, or 10 s after
 * an error.
 */
export const blocking_socket_timeout_ms = 12_000

/** The connection that receives published states. It sends no commands of its own, so it is pinged. */
export const subscriberConnection: RedisOptions = {
  ...anyConnection,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  autoResubscribe: false,
  socketTimeout: 2_000,
  retryStrategy: () => 250,
}
export const ping_interval_ms = 2_000
