// The queue: carries wake-ups to workers, and the states of jobs to waiting requests. It may lose any message without
// losing work.
import { setTimeout as sleep } from 'node:timers/promises'
import { isUnavailable } from '#core/db.ts'
import type { Tries } from '#core/migrate/lock-waits.ts'
import { throttle } from '#core/seldom.ts'
import { withTimeout } from '#core/timeout.ts'
import type { Witness } from '#core/witness.ts'
import type { AcceptedRequest, AcceptedStream } from './accepted.ts'
import { watchBackend } from './away.ts'
import type { Backend, BullQueue, Listener } from './backend.ts'
import { type WakeUp, type PublishedState, decodeStates } from './wakeup-messages.ts'
import { type Consumer, startConsumer } from './consumer.ts'
import { watchDepths } from './depth.ts'
import { openPostgres } from './postgres.ts'
import { migrateBullTables } from './postgres-tables.ts'
import { createProducer } from './producer.ts'
import { openRedis } from './redis.ts'
import {
  down_probe_interval_ms,
  silence_found_ms,
  keep_limit_ms,
  type QueueConfig,
  type QueueHooks,
  recovery_ms,
} from './settings.ts'

export type { WakeUp, PublishedState } from './wakeup-messages.ts'
export type { RecordedRequest } from './accepted.ts'
export type { QueueConfig, QueueHooks } from './settings.ts'

export type Queue = {
  readonly backend: 'redis' | 'postgres'
  /**
   * True while the backend is unusable; then workers and waiting requests poll the database every 50 ms. Also true
   * while this process does not receive published states, and for half a second after that, because states that were
   * published meanwhile are lost.
   */
  isDown(): boolean
  /**
   * Sends wake-ups without waiting and never throws. Wake-ups that cannot be sent within 100 ms (1 s on PostgreSQL),
   * and all wake-ups while the backend is down, are dropped and counted (`onDrop`); the sweep finds their jobs.
   */
  wake(wakeups: WakeUp[]): void
  /**
   * Whether the queue is full: so many BullMQ jobs wait in it that no more wake-ups should be sent. The known depth
   * is about a second old.
   */
  full(queue: string): boolean
  /**
   * Runs `perform` for each wake-up of the queue, at most `concurrency` at a time; `perform` may run twice for one
   * wake-up. `signal` is aborted when BullMQ's lock is lost, for example after Redis was wiped. Only the lease in the
   * job's row decides which worker performs the job.
   */
  consume(options: {
    queue: string
    concurrency: number
    perform: (id: string, signal?: AbortSignal) => Promise<void>
  }): Consumer
  /**
   * BullMQ's view of the queues, for bull-board: they hold wake-ups, not jobs. Read only: a change there changes no
   * job. Rejects while the backend is down.
   */
  bullQueues(names: readonly string[]): Promise<BullQueue[]>
  /** See `Witness`. A queue on PostgreSQL stores nothing, because what is stored has to outlive the database. */
  keepNewest: Witness['keepNewest']
  /** Publishes the states of jobs to every process, without waiting. Never throws. */
  publish(states: PublishedState[]): void
  /**
   * Records an accepted request without waiting. Never throws. A request that cannot be recorded is counted
   * (`onUnrecorded`), and the stream then shows that it is incomplete.
   */
  record(request: AcceptedRequest): void
  /** The stream of accepted requests. Null if they are not recorded: only Redis has one. */
  readonly accepted: Pick<AcceptedStream, 'read' | 'completeness'> | null
  /**
   * Receives the states that every process publishes. Resolves when messages are received, or after 1 s if the
   * backend does not answer; connecting then continues in the background.
   */
  subscribe(onStates: (states: PublishedState[]) => void): Promise<{ close(): Promise<void> }>
  /**
   * Waits for the current wake-ups and closes all connections; takes at most a few seconds, even while the backend is
   * down.
   */
  close(): Promise<void>
}

/**
 * Opens the queue and connects in the background. An unreachable backend causes no error: the queue is down until it
 * answers.
 */
export function openQueue(config: QueueConfig, hooks: QueueHooks): Queue {
  const failed = errorReport(hooks, () => watch.isDown())
  const signals = {
    onLost(reason: string) {
      producer.disconnected()
      watch.onLost(reason)
    },
    onSilence() {
      // Each pool finds its silent connections at a time of its own.
      const restarted_ms = performance.now() - Math.max(restarted_at, watch.upSince())
      if (restarted_ms > silence_found_ms) restartConsumers()
    },
    changed: () => watch.probeNow(),
    failed,
    warn: (message: string) => hooks.log('warn', {}, message),
  }
  const backend = config.redis_url
    ? openRedis(config.redis_url, hooks.process_id, signals, {
        most: config.accepted_max ?? 0,
        findKeys: hooks.findAcceptedKeys ?? noAcceptedKeys,
      })
    : openPostgres(config, signals)
  const watch = watchBackend(backend, {
    onDown(reason) {
      const where = config.redis_url ? 'REDIS_URL' : 'the queue is down'
      hooks.log('warn', { backend: backend.name }, `${where}: ${reason}; jobs are claimed from PostgreSQL`)
      producer.discard()
    },
    onUp() {
      hooks.log('info', { backend: backend.name }, 'the queue is up again')
      if (!backend.worker_outlives_outage) restartConsumers()
    },
  })
  const counted = (count: ((items: number) => void) | undefined) => (items: number) => {
    try {
      count?.(items)
    } catch (error) {
      failed(error)
    }
  }
  const producer = createProducer(backend, watch, {
    drop: counted(hooks.onDrop),
    miss: counted(hooks.onUnrecorded),
  })
  const consumers = new Set<Consumer>()
  let restarted_at = -Infinity
  function restartConsumers(): void {
    restarted_at = performance.now()
    for (const consumer of consumers) consumer.restart().catch(failed)
  }
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
    keepNewest: (...args) => withTimeout(backend.keepNewest(...args), keep_limit_ms),
    publish: (states) => producer.publish(states),
    record: (request) => producer.record(request),
    accepted: backend.accepted,
    subscribe: (onStates) => subscriptions.subscribe(onStates),
    close: () => (closing ??= closeAll()),
  }
}

async function noAcceptedKeys(): Promise<never> {
  throw new Error('this process has no key of the accepted requests')
}

/**
 * Returns a function that reports an error of the backend. During an outage every connection fails; the outage was
 * already logged once.
 */
function errorReport(hooks: QueueHooks, isDown: () => boolean): (error: unknown) => void {
  const report = throttle((suppressed, error: unknown) =>
    hooks.log(isDown() ? 'debug' : 'warn', { err: error, suppressed }, 'the queue reported an error'),
  )
  return (error) => {
    if (isConnectionLoss(error)) setTimeout(report, down_probe_interval_ms, error).unref()
    else report(error)
  }
}

function createSubscriptions(backend: Backend) {
  const listeners = new Set<Listener>()
  return {
    /** The time since which all listeners have received every message. */
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

/** Prepares the backend: BullMQ's own tables in PostgreSQL, see `migrateBullTables`. Redis needs no preparation. */
export async function migrateQueue(
  config: QueueConfig,
  report?: (text: string) => void,
  tries?: Tries,
): Promise<void> {
  if (!config.redis_url) await migrateBullTables(config, report, tries)
}

/** Whether the error only reports a lost connection. */
function isConnectionLoss(error: unknown): boolean {
  return (
    isUnavailable(error) ||
    (error instanceof Error && /^(Connection is closed|Stream isn't writ)/.test(error.message))
  )
}
