// Waiting for a job: what is heard on the one channel, and polling, say when to look at its row; the row says whether it ended.
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { findOutcomes } from '#domain/jobs/outcomes.ts'
import type { Queue } from '#queue/main.ts'

/** Waiting ends on these; `ready` and `running` go on. */
const ENDED = new Set(['succeeded', 'failed', 'unknown', 'discarded'])
const POLL_MS = 1000
const AWAY_POLL_MS = 50
/** Anybody may publish: who waits is told no more often than this. */
const HINT_EVERY_MS = 50
/** What a stopping process still grants to those who wait. */
const CLOSE_MS = 5_000

/** What is heard of one job, from `listen` on. */
export type Hints = Disposable & {
  /** Resolves with true when something was heard since the last time, and with false when the time is over. */
  next(): Promise<boolean>
}

const OF_NONE: Hints = { next: () => Promise.resolve(false), [Symbol.dispose]: () => {} }

export type Waiters = {
  /** Listens for what is heard of a job, at most for `wait_ms`. Null: of none, so that the time is over at once. */
  listen(job_id: string | null, wait_ms: number): Hints
  /** Tells who waits that something was heard. What was said of a job is not believed. */
  heard(outcomes: { id: string }[]): void
  /** New waits end at once; those under way have a few seconds more. The work goes on, the answer is 202. */
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

  function heard(outcomes: { id: string }[]): void {
    for (const { id } of outcomes) listening.get(id)?.forEach(({ hear }) => hear())
  }

  // A message can be lost with the connection that carried it: the database is asked now and then in any case.
  const timer = setInterval(() => {
    const due_ms = queue.away() ? AWAY_POLL_MS : POLL_MS
    if (polling || listening.size === 0 || performance.now() - polled_at < due_ms) return
    polling = true
    findOutcomes(sql, Array.from(listening.keys()))
      .then(
        (found) => heard(found.filter(({ state }) => hasEnded(state))),
        (error: unknown) => log.debug({ err: error }, 'waiters could not poll'),
      )
      .finally(() => {
        polling = false
        polled_at = performance.now()
      })
  }, AWAY_POLL_MS)
  timer.unref()

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
        clearInterval(timer)
        for (const listeners of listening.values()) listeners.forEach(({ end }) => end())
      }, CLOSE_MS).unref()
    },
  }
}
