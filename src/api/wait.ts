// Waits for jobs. Published states and polling are only hints to read the job's row; the row says whether the job has
// ended.
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { findJobStates } from '#domain/jobs/states.ts'
import type { Queue } from '#queue/queue.ts'

/** The states that end a wait; it goes on while a job is `ready` or `running`. */
const ENDED = new Set(['succeeded', 'failed', 'unknown', 'discarded'])
const POLL_MS = 1000
const AWAY_POLL_MS = 50
/** The shortest time between two hints to a waiter: anybody who reaches the queue can publish. */
const HINT_EVERY_MS = 50
/** How long waits may continue after the process was told to stop. */
const CLOSE_MS = 5_000

/** Hints about one job, from `listen` on. */
export type Hints = Disposable & {
  /** Resolves with true when there was a hint since the last call, and with false when the wait is over. */
  next(): Promise<boolean>
}

const OF_NONE: Hints = { next: () => Promise.resolve(false), [Symbol.dispose]: () => {} }

export type Waiters = {
  /** Listens for hints about a job for at most `wait_ms`. With null there is no job, and the wait is over at once. */
  listen(job_id: string | null, wait_ms: number): Hints
  /** Passes hints on to the waiters of these jobs. The published state is ignored: anybody can publish. */
  heard(jobs: { id: string }[]): void
  /** Ends new waits at once and those under way after a few seconds. Their work goes on, and they are answered 202. */
  close(): void
}

export function hasEnded(state: string): boolean {
  return ENDED.has(state)
}

export function createWaiters(sql: Sql, queue: Queue, log: Log): Waiters {
  type Listener = { hear: () => void; end: () => void }
  const listening = new Map<string, Set<Listener>>()
  let polled_at = performance.now()
  let polling = false
  let closed = false

  function heard(jobs: { id: string }[]): void {
    for (const { id } of jobs) listening.get(id)?.forEach(({ hear }) => hear())
  }

  // A published message can be lost with its connection, so the database is polled as well.
  function poll(): void {
    const due_ms = queue.away() ? AWAY_POLL_MS : POLL_MS
    if (polling || performance.now() - polled_at < due_ms) return
    polling = true
    findJobStates(sql, Array.from(listening.keys()))
      .then(
        (found) => heard(found.filter(({ state }) => hasEnded(state))),
        (error: unknown) => log.debug({ err: error }, 'waiters could not poll'),
      )
      .finally(() => {
        polling = false
        polled_at = performance.now()
      })
  }

  let timer: NodeJS.Timeout | undefined
  function pollWhileListening(): void {
    if (listening.size > 0) timer ??= setInterval(poll, AWAY_POLL_MS).unref()
    else {
      clearInterval(timer)
      timer = undefined
    }
  }

  return {
    heard,
    listen(job_id, wait_ms) {
      if (job_id === null) return OF_NONE
      let over = closed || wait_ms === 0
      let hinted = false
      let told_at = -Infinity
      let resolve: ((more: boolean) => void) | undefined
      let later: NodeJS.Timeout | undefined

      function tell(): void {
        if (resolve === undefined || (!hinted && !over)) return
        const rest_ms = over ? 0 : told_at + HINT_EVERY_MS - performance.now()
        if (rest_ms > 0) {
          later ??= setTimeout(() => {
            later = undefined
            tell()
          }, rest_ms)
          return
        }
        hinted = false
        told_at = performance.now()
        resolve(!over)
        resolve = undefined
      }
      const end = () => {
        over = true
        clearTimeout(timeout)
        clearTimeout(later)
        const others = listening.get(job_id)
        others?.delete(listener)
        if (others?.size === 0) listening.delete(job_id)
        pollWhileListening()
        tell()
      }

      const listener: Listener = {
        hear() {
          hinted = true
          tell()
        },
        end,
      }
      const timeout = over ? undefined : setTimeout(end, wait_ms)
      if (!over) listening.set(job_id, (listening.get(job_id) ?? new Set<Listener>()).add(listener))
      pollWhileListening()
      return {
        next: () =>
          new Promise((given) => {
            resolve = given
            tell()
          }),
        [Symbol.dispose]: end,
      }
    },
    close() {
      closed = true
      setTimeout(() => {
        for (const listeners of listening.values()) listeners.forEach(({ end }) => end())
      }, CLOSE_MS).unref()
    },
  }
}
