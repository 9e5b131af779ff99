// The interface of a queue backend: what Redis and PostgreSQL do differently. All other code of the queue is shared.
import type { Queue } from 'bullmq'
import type { WakeUp } from './wakeup-messages.ts'

export type Backend = {
  readonly name: 'redis' | 'postgres'
  /** How long a batch of bells, a publication or a probe may take. */
  readonly limit_ms: number
  addWakeUps(queue: string, wakeups: WakeUp[]): Promise<void>
  /** BullMQ's own view of a queue, for those who only look. It is closed with the backend. */
  bullQueue(queue: string): Promise<BullQueue>
  /** How many jobs of BullMQ wait in the queue. */
  depth(queue: string): Promise<number>
  /** Each message is heard by every listener of every process. At most `max_message_bytes` long. */
  publish(messages: string[]): Promise<void>
  readonly max_message_bytes: number
  /** A small write: it also fails when the backend answers but refuses writes. */
  probe(): Promise<void>
  /** Drops connections that no longer answer; new ones are made. */
  reconnect(): void
  /** Whether a worker recovers by itself after an outage; if not, it is replaced. */
  readonly worker_outlives_outage: boolean
  startWorker(options: WorkerStart): RunningWorker
  listen(onMessage: (message: string) => void): Listener
  close(): Promise<void>
}

/** A queue of BullMQ, whatever is in it and wherever it is kept. */
// oxlint-disable-next-line typescript/no-explicit-any -- as BullMQ itself names any of its queues
export type BullQueue = Queue<any, any, string, any, any, string, any>

export type WorkerStart = {
  queue: string
  concurrency: number
  /** Never rejects. */
  perform: (id: string, signal?: AbortSignal) => Promise<void>
}

export type RunningWorker = {
  /** Takes no more bells and resolves when those under way are done. May never resolve while the backend is away. */
  close(): Promise<void>
  /** Ends by force what `close` could not end. */
  terminate(): Promise<void>
}

export type Listener = {
  /** Resolves when it begins to listen for the first time. */
  opened: Promise<void>
  /** Since when it has listened without a break, by `performance.now()`; Infinity while it does not listen. */
  listeningSince(): number
  close(): Promise<void>
}

/** What a backend reports by itself. */
export type BackendSignals = {
  /** Something that an operator should correct. */
  warn: (message: string) => void
  /** The connection is gone. */
  onLost: (reason: string) => void
  /** A connection was opened or closed: a probe will tell whether the backend is away. */
  changed: () => void
  /** Something failed that nobody awaited. */
  failed: (error: unknown) => void
}
