// The interface of a queue backend: the differences between Redis and PostgreSQL. All other code of the queue is
// shared.
import type { Queue } from 'bullmq'
import type { Witness } from '#core/witness.ts'
import type { AcceptedStream } from './accepted.ts'
import type { WakeUp } from './wakeup-messages.ts'

export type Backend = {
  readonly name: 'redis' | 'postgres'
  /** The time limit of a batch of wake-ups, a publication or a probe. */
  readonly limit_ms: number
  addWakeUps(queue: string, wakeups: WakeUp[]): Promise<void>
  /** BullMQ's own view of a queue, for reading only. The view is closed with the backend. */
  bullQueue(queue: string): Promise<BullQueue>
  /** The number of BullMQ jobs that wait in the queue. */
  depth(queue: string): Promise<number>
  /** Publishes to every listener of every process. A message has at most `max_message_bytes`. */
  publish(messages: string[]): Promise<void>
  readonly max_message_bytes: number
  /** A queue on PostgreSQL stores nothing, because what is stored has to outlive the database. */
  keepNewest: Witness['keepNewest']
  /** The stream of accepted requests; null if they are not recorded. */
  readonly accepted: AcceptedStream | null
  /** Probes the backend with a small write, which also fails if the backend answers but refuses writes. */
  probe(): Promise<void>
  /** Replaces connections that no longer answer. */
  reconnect(): void
  /** Whether a worker recovers by itself after an outage. If not, the worker is replaced. */
  readonly worker_outlives_outage: boolean
  startWorker(options: WorkerStart): RunningWorker
  listen(onMessage: (message: string) => void): Listener
  close(): Promise<void>
}

/** Any queue of BullMQ, on either backend. */
// oxlint-disable-next-line typescript/no-explicit-any -- as BullMQ itself names any of its queues
export type BullQueue = Queue<any, any, string, any, any, string, any>

export type WorkerStart = {
  queue: string
  concurrency: number
  /** Never rejects. */
  perform: (id: string, signal?: AbortSignal) => Promise<void>
}

export type RunningWorker = {
  /**
   * Accepts no more wake-ups, and resolves when the current wake-ups are performed. May never resolve while the
   * backend is down.
   */
  close(): Promise<void>
  /** Closes by force. */
  terminate(): Promise<void>
}

export type Listener = {
  /** Resolves when the listener receives messages for the first time. */
  opened: Promise<void>
  /**
   * The time since which the listener has received messages without interruption, by `performance.now()`; Infinity
   * while it does not receive any.
   */
  listeningSince(): number
  close(): Promise<void>
}

/** The events that a backend reports. */
export type BackendSignals = {
  /** A problem that an operator should correct. */
  warn: (message: string) => void
  /** The connection was lost. */
  onLost: (reason: string) => void
  /** The server was silent on some connections, so workers may listen on silent ones. */
  onSilence: () => void
  /** A connection was opened or closed: a probe shows if the backend is down. */
  changed: () => void
  /** An operation that no caller awaits has failed. */
  failed: (error: unknown) => void
}
