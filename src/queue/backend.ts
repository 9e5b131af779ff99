// What Redis and PostgreSQL do differently: the rest of the queue is one code.
import type { Bell } from './bells.ts'

export type Backend = {
  readonly name: 'redis' | 'postgres'
  /** How long a batch of bells, a publication or a probe may take. */
  readonly limit_ms: number
  addBells(queue: string, bells: Bell[]): Promise<void>
  /** How many jobs of BullMQ wait in the queue. */
  depth(queue: string): Promise<number>
  /** Each message is heard by every listener of every process. At most `max_message_bytes` long. */
  publish(messages: string[]): Promise<void>
  readonly max_message_bytes: number
  /** A small write: it fails also where the backend answers and takes nothing. */
  probe(): Promise<void>
  /** Drops connections that no longer answer; others are made. */
  reconnect(): void
  /** Whether a worker finds back by itself after an outage; if not, another takes its place. */
  readonly worker_outlives_outage: boolean
  startWorker(options: WorkerStart): RunningWorker
  listen(onMessage: (message: string) => void): Listener
  close(): Promise<void>
}

export type WorkerStart = {
  queue: string
  concurrency: number
  /** Never rejects. */
  perform: (id: string, signal?: AbortSignal) => Promise<void>
}

export type RunningWorker = {
  /** Takes no more bells and resolves when those it performs are done; never, perhaps, while the backend is away. */
  close(): Promise<void>
  /** Ends what a close may have left. */
  cut(): Promise<void>
}

export type Listener = {
  /** Resolves when it hears for the first time. */
  opened: Promise<void>
  /** Since when it hears without a break, on the clock of `performance.now()`; Infinity while it does not. */
  hearsSince(): number
  close(): Promise<void>
}

/** What a backend tells by itself. */
export type BackendSignals = {
  /** Something that an operator should mend. */
  warn: (message: string) => void
  /** The connection is gone. */
  lost: (reason: string) => void
  /** A connection came or went: a probe will tell. */
  changed: () => void
  /** Something failed that nobody awaited. */
  failed: (error: unknown) => void
}
