// The queue: carries bells to workers, and the states of jobs to waiting requests. Everything in it may be lost without losing
// work.
import { setTimeout as sleep } from 'node:timers/promises'
import { isUnavailable } from '#core/db.ts'
import { throttle } from '#core/seldom.ts'
import { watchBackend } from './away.ts'
import type { Backend, BullQueue, Listener } from './backend.ts'
import { type WakeUp, type PublishedState, decodeStates } from './wakeup-messages.ts'
import { type Consumer, startConsumer } from './consumer.ts'
import { watchDepths } from './depth.ts'
import { openPostgres } from './postgres.ts'
import { migrateBullTables } from './postgres-tables.ts'
import { createProducer } from './producer.ts'
import { openRedis } from './redis.ts'
import { down_probe_interval_ms, type QueueConfig, type QueueHooks, recovery_ms } from './settings.ts'

export type { WakeUp, PublishedState } from './wakeup-messages.ts'
export type { QueueConfig, QueueHooks } from './settings.ts'

export type Queue = {
  readonly backend: 'redis' | 'postgres'
  /**
   * True while the backend is known to be unusable; then workers and waiters poll the database every 50 ms. Also true
   * while published states are not received, and for half a second after that, because those published meanwhile are lost.
   */
  isDown(): boolean
  /**
   * Rings without waiting and never throws. Bells that cannot be rung within 100 ms (1 s on PostgreSQL), and all
   * while the backend is away, are dropped and counted (`onDrop`); their jobs are claimed directly.
   */
  wake(wakeups: WakeUp[]): void
  /** Whether so many BullMQ jobs wait in the queue that nobody should ring for more; about a second old. */
  full(queue: string): boolean
  /**
   * Runs `perform` for each bell of the queue, at most `concurrency` at a time; it may run twice for one bell.
   * `signal` is aborted when BullMQ's lock is lost, as when Redis was wiped. Only the lease in the job's row decides
   * who performs it, not that lock.
   */
  consume(options: {
    queue: string
    concurrency: number
    perform: (id: string, signal?: AbortSignal) => Promise<void>
  }): Consumer
  /**
   * The queues as BullMQ has them, for bull-board: they hold wake-ups, not jobs. Only for looking: what is changed there
   * changes no job. Rejects while the backend is away.
   */
  bullQueues(names: readonly string[]): Promise<BullQueue[]>
  /** Publishes the states of jobs to every process, without waiting. Never throws. */
  publish(states: PublishedState[]): void
  /**
   * Receives what every process publishes. Resolves when it listens, or after 1 s without a backend, and then goes
   * on trying.
   */
  subscribe(onStates: (states: PublishedState[]) => void): Promise<{ close(): Promise<void> }>
  /** Waits for the bells under way and ends all connections; takes seconds at most, even while the backend is away. */
  close(): Promise<void>
}

/** Connects in the background: a backend that is down is away, not an error. */
export function openQueue(config: QueueConfig, hooks: QueueHooks): Queue {
  const failed = errorReport(hooks, () => watch.isDown())
  const signals = {
    onLost: (reason: string) => watch.onLost(reason),
    changed: () => watch.probeNow(),
    failed,
    warn: (message: string) => hooks.log('warn', {}, message),
  }
  const backend = config.redis_url
    ? openRedis(config.redis_url, hooks.process_id, signals)
    : openPostgres(config, signals)
  const watch = watchBackend(backend, {
    onDown(reason) {
      const where = config.redis_url ? 'REDIS_URL' : 'the queue is away'
      hooks.log('warn', { backend: backend.name }, `${where}: ${reason}; jobs are claimed from PostgreSQL`)
      producer.discard()
    },
    onUp() {
      hooks.log('info', { backend: backend.name }, 'the queue is back')
      if (!backend.worker_outlives_outage) for (const consumer of consumers) consumer.restart().catch(failed)
    },
  })
  const producer = createProducer(backend, watch, (wakeups) => {
    try {
      hooks.onDrop?.(wakeups)
    } catch (error) {
      failed(error)
    }
  })
  const consumers = new Set<Consumer>()
  const subscriptions = createSubscriptions(backend)
  let closing: Promise<void> | null = null

  async function closeAll(): Promise<void> {
    await Promise.all([...consumers].map((consumer) => consumer.close()))
    await producer.close()
    watch.close()
    await subscriptions.close()
    await backend.close()
  }

  return {
    backend: backend.name,
    isDown() {
      const usable_since = Math.max(watch.upSince(), subscriptions.listeningSince())
      return watch.isDown() || performance.now() - usable_since < recovery_ms
    },
    wake: (wakeups) => producer.wake(wakeups),
    full: watchDepths(backend),
    consume(options) {
      const consumer = startConsumer(backend, options, failed)
      consumers.add(consumer)
      return {
        restart: consumer.restart,
        async close() {
          await consumer.close()
          consumers.delete(consumer)
        },
      }
    },
    bullQueues: (names) => Promise.all(names.map((name) => backend.bullQueue(name))),
    publish: (states) => producer.publish(states),
    subscribe: (onStates) => subscriptions.subscribe(onStates),
    close: () => (closing ??= closeAll()),
  }
}

/** Returns what reports an error of the backend. While it is away every connection fails; that was already logged once. */
function errorReport(hooks: QueueHooks, isAway: () => boolean): (error: unknown) => void {
  const report = throttle((suppressed, error: unknown) =>
    hooks.log(isAway() ? 'debug' : 'warn', { err: error, suppressed }, 'the queue reported an error'),
  )
  return (error) => {
    if (isConnectionLoss(error)) setTimeout(report, down_probe_interval_ms, error).unref()
    else report(error)
  }
}

function createSubscriptions(backend: Backend) {
  const listeners = new Set<Listener>()
  return {
    /** Since when all of them have heard everything. */
    listeningSince: () => Math.max(-Infinity, ...[...listeners].map((listener) => listener.listeningSince())),
    async subscribe(onStates: (states: PublishedState[]) => void) {
      const listener = backend.listen((message) => {
        const states = decodeStates(message)
        if (states.length > 0) onStates(states)
      })
      listeners.add(listener)
      await Promise.race([listener.opened, sleep(1_000, undefined, { ref: false })])
      return {
        async close() {
          listeners.delete(listener)
          await listener.close()
        },
      }
    },
    async close() {
      await Promise.all([...listeners].map((listener) => listener.close()))
    },
  }
}

/** Prepares the backend: BullMQ's own tables in PostgreSQL. Redis needs nothing. */
export async function migrateQueue(config: QueueConfig): Promise<void> {
  if (!config.redis_url) await migrateBullTables(config)
}

/** Whether the error only means that a connection was lost. */
function isConnectionLoss(error: unknown): boolean {
  return (
    isUnavailable(error) ||
    (error instanceof Error && /^(Connection is closed|Stream isn't writ)/.test(error.message))
  )
}
