// Waits for jobs and events. Published messages and polls are only hints to read again: the rows show whether a job has
// ended, and which events are in the feed.
import type { FastifyRequest } from 'fastify'
import type { Sql } from '#core/db.ts'
import { onDisconnect } from '#core/leaving.ts'
import type { Log } from '#core/log.ts'
import { findLastSequences } from '#domain/feed.ts'
import { findJobStates } from '#domain/jobs/states.ts'
import type { Queue } from '#queue/queue.ts'

/** The states of a job that end a wait. The wait continues while the job is `ready` or `running`. */
const WAIT_ENDING_STATES = new Set(['succeeded', 'failed', 'unknown', 'discarded'])
const POLL_INTERVAL_MS = 1000
const OUTAGE_POLL_INTERVAL_MS = 50
/**
 * The minimum time between two hints to one wait. It bounds the reads: any client of the queue can publish messages.
 */
const HINT_INTERVAL_MS = 50
/** The minimum time between two hints to one wait for events doubles with each hint, up to this maximum. */
const MAX_FEED_HINT_INTERVAL_MS = 1000
/** The maximum number of waits at once. Further waits end immediately. */
const MAX_WAITERS = 20_000
/** How long waits for jobs may continue after a stop signal. */
const CLOSE_TIMEOUT_MS = 5_000

/** Hints about one id since `listen`. */
export type Hints = Disposable & {
  /**
   * Resolves to true if there was a hint since the last call, or at the next hint; resolves to false when the wait
   * ends.
   */
  next(): Promise<boolean>
}

const NO_HINTS: Hints = { next: () => Promise.resolve(false), [Symbol.dispose]: () => {} }

export type Waiters = {
  /**
   * Listens for hints about an id for at most `wait_ms`. The wait ends immediately if the id is null, or if there are
   * too many waits: the request is then answered with the current state.
   */
  listen(id: string | null, wait_ms: number): Hints
  /** Sends hints to the waits for these ids. The published state is ignored: any client of the queue can publish. */
  notify(published: { id: string }[]): void
  /** Ends new waits immediately, and current waits after the close timeout. */
  close(): void
}

/** Like `listen`, for a request: the wait also ends when the caller disconnects. */
export function listenWhileConnected(
  waiters: Waiters,
  request: FastifyRequest,
  id: string | null,
  wait_ms: number,
): Hints {
  const hints = waiters.listen(id, wait_ms)
  if (hints === NO_HINTS) return hints
  const end = () => hints[Symbol.dispose]()
  const stop = onDisconnect(request, end)
  return {
    next: () => hints.next(),
    [Symbol.dispose]() {
      stop()
      end()
    },
  }
}

type WaiterOptions = {
  /** Finds the ids that may have changed. */
  poll: (ids: string[]) => Promise<{ id: string }[]>
  /** The minimum time to the next hint of a wait that has received `hints` hints. */
  hintIntervalMs: (hints: number) => number
  close_timeout_ms: number
}

export function endsWait(state: string): boolean {
  return WAIT_ENDING_STATES.has(state)
}

/**
 * Waits for jobs, by job id. When the process stops, the waiting requests are answered 202, and workers do the jobs.
 */
export function createJobWaiters(sql: Sql, queue: Queue, log: Log): Waiters {
  return createWaiters(queue, log, {
    // A job that is gone is lost, and its request reads again too.
    async poll(ids) {
      const states = await findJobStates(sql, ids)
      const open = new Set(states.flatMap(({ id, state }) => (endsWait(state) ? [] : [id])))
      return ids.flatMap((id) => (open.has(id) ? [] : [{ id }]))
    },
    hintIntervalMs: () => HINT_INTERVAL_MS,
    close_timeout_ms: CLOSE_TIMEOUT_MS,
  })
}

/** Waits for events, by tenant id. */
export function createFeedWaiters(sql: Sql, queue: Queue, log: Log): Waiters {
  let last_sequences = new Map<string, number>()
  return createWaiters(queue, log, {
    async poll(ids) {
      const last = await findLastSequences(sql, ids)
      const changed = last.filter(
        ({ tenant_id, last_sequence }) => last_sequences.get(tenant_id) !== last_sequence,
      )
      last_sequences = new Map(last.map(({ tenant_id, last_sequence }) => [tenant_id, last_sequence]))
      return changed.map(({ tenant_id }) => ({ id: tenant_id }))
    },
    hintIntervalMs: (hints) => Math.min(HINT_INTERVAL_MS * 2 ** hints, MAX_FEED_HINT_INTERVAL_MS),
    close_timeout_ms: 0,
  })
}

function createWaiters(
  queue: Queue,
  log: Log,
  { poll: findChanged, hintIntervalMs, close_timeout_ms }: WaiterOptions,
): Waiters {
  const listening = new Map<string, Set<Wait>>()
  let polled_at = performance.now()
  let polling = false
  let closed = false
  let count = 0

  function notify(published: { id: string }[]): void {
    for (const { id } of published) listening.get(id)?.forEach(({ notify }) => notify())
  }

  // Polls the database as well, because a published message can be lost with its connection.
  function poll(): void {
    const due_ms = queue.isDown() ? OUTAGE_POLL_INTERVAL_MS : POLL_INTERVAL_MS
    if (polling || performance.now() - polled_at < due_ms) return
    polling = true
    findChanged(Array.from(listening.keys()))
      .then(notify, (error: unknown) =>
        log.debug({ err: error }, 'polling the database for waiting requests failed: retrying'),
      )
      .finally(() => {
        polling = false
        polled_at = performance.now()
      })
  }

  let timer: NodeJS.Timeout | undefined
  function pollWhileListening(): void {
    if (listening.size > 0) timer ??= setInterval(poll, OUTAGE_POLL_INTERVAL_MS).unref()
    else {
      clearInterval(timer)
      timer = undefined
    }
  }

  function leave(id: string, wait: Wait): void {
    const waits = listening.get(id)
    if (waits?.delete(wait) === true) count -= 1
    if (waits?.size === 0) listening.delete(id)
    pollWhileListening()
  }

  return {
    notify,
    listen(id, wait_ms) {
      if (id === null) return NO_HINTS
      const ended = closed || wait_ms === 0 || count >= MAX_WAITERS
      const wait = createWait({ ended, wait_ms, hintIntervalMs, onEnd: () => leave(id, wait) })
      if (!ended) {
        listening.set(id, (listening.get(id) ?? new Set<Wait>()).add(wait))
        count += 1
      }
      pollWhileListening()
      return wait
    },
    close() {
      closed = true
      setTimeout(() => {
        for (const waits of listening.values()) waits.forEach(({ end }) => end())
      }, close_timeout_ms).unref()
    },
  }
}

/** One wait. `notify` reports a hint. */
type Wait = Hints & { notify: () => void; end: () => void }

/** Creates one wait. `ended`: whether the wait ends at once. `onEnd` may be called several times. */
function createWait({
  ended,
  wait_ms,
  hintIntervalMs,
  onEnd,
}: Pick<WaiterOptions, 'hintIntervalMs'> & { ended: boolean; wait_ms: number; onEnd: () => void }): Wait {
  let hinted = false
  let hints = 0
  let notified_at = -Infinity
  let resolve: ((more: boolean) => void) | undefined
  let delayed: NodeJS.Timeout | undefined

  function resolveNext(): void {
    if (resolve === undefined || (!hinted && !ended)) return
    const delay_ms = ended ? 0 : notified_at + hintIntervalMs(hints) - performance.now()
    if (delay_ms > 0) {
      delayed ??= setTimeout(() => {
        delayed = undefined
        resolveNext()
      }, delay_ms)
      return
    }
    hinted = false
    hints += 1
    notified_at = performance.now()
    resolve(!ended)
    resolve = undefined
  }

  function end(): void {
    ended = true
    clearTimeout(timeout)
    clearTimeout(delayed)
    onEnd()
    resolveNext()
  }

  const timeout = ended ? undefined : setTimeout(end, wait_ms)
  return {
    notify() {
      hinted = true
      resolveNext()
    },
    end,
    next: () =>
      new Promise((resolve_next) => {
        resolve = resolve_next
        resolveNext()
      }),
    [Symbol.dispose]: end,
  }
}
