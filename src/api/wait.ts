// Waits for jobs and for events. What is published and polled are only hints to read the rows; these say whether a job
// has ended, and what the feed holds.
import type { FastifyRequest } from 'fastify'
import type { Sql } from '#core/db.ts'
import { onLeft } from '#core/leaving.ts'
import type { Log } from '#core/log.ts'
import { findLastSequences } from '#domain/feed.ts'
import { findJobStates } from '#domain/jobs/states.ts'
import type { Queue } from '#queue/queue.ts'

/** The states that end a wait; it goes on while a job is `ready` or `running`. */
const ENDED = new Set(['succeeded', 'failed', 'unknown', 'discarded'])
const POLL_MS = 1000
const AWAY_POLL_MS = 50
/** The shortest time between two hints to a waiter: anybody who reaches the queue can publish. */
const HINT_EVERY_MS = 50
/** Who waits for some of many events is hinted ever more seldom, at least as often as this. */
const FEED_HINT_MS = 1000
/** Those who wait at once; of more, none waits. */
const MOST_WAITERS = 20_000
/** How long waits for jobs may continue after the process was told to stop. */
const CLOSE_MS = 5_000

/** Hints about one id, from `listen` on. */
export type Hints = Disposable & {
  /** Resolves with true when there was a hint since the last call, and with false when the wait is over. */
  next(): Promise<boolean>
}

const OF_NONE: Hints = { next: () => Promise.resolve(false), [Symbol.dispose]: () => {} }

export type Waiters = {
  /**
   * Listens for hints about an id for at most `wait_ms`. With null there is nothing to wait for, and it is over at
   * once. It is over at once too when too many wait already: what was asked for is accepted, and answered as it stands.
   */
  listen(id: string | null, wait_ms: number): Hints
  /** Passes hints on to the waiters of these ids. The published state is ignored: anybody can publish. */
  heard(published: { id: string }[]): void
  /** Ends new waits at once, and those under way at once or after a few seconds. */
  close(): void
}

/** The same for a request, whose wait is over when its caller has left. */
export function listenWhileThere(
  waiters: Waiters,
  request: FastifyRequest,
  id: string | null,
  wait_ms: number,
): Hints {
  const hints = waiters.listen(id, wait_ms)
  if (hints === OF_NONE) return hints
  const end = () => hints[Symbol.dispose]()
  const stop = onLeft(request, end)
  return {
    next: () => hints.next(),
    [Symbol.dispose]() {
      stop()
      end()
    },
  }
}

type WaitedFor = {
  /** Finds of which of these ids there may be news. */
  poll: (ids: string[]) => Promise<{ id: string }[]>
  /** The shortest time between two hints to a waiter that got so many already. */
  hint_every_ms: (hints: number) => number
  close_ms: number
}

export function hasEnded(state: string): boolean {
  return ENDED.has(state)
}

/** The waiters for jobs, by the job's id. When the process stops, the work goes on, and they are answered 202. */
export function createJobWaiters(sql: Sql, queue: Queue, log: Log): Waiters {
  return createWaiters(queue, log, {
    poll: async (ids) => (await findJobStates(sql, ids)).filter(({ state }) => hasEnded(state)),
    hint_every_ms: () => HINT_EVERY_MS,
    close_ms: CLOSE_MS,
  })
}

/** The waiters for events, by the tenant's id. */
export function createFeedWaiters(sql: Sql, queue: Queue, log: Log): Waiters {
  let seen = new Map<string, number>()
  return createWaiters(queue, log, {
    async poll(ids) {
      const last = await findLastSequences(sql, ids)
      const grown = last.filter(({ tenant_id, last_sequence }) => seen.get(tenant_id) !== last_sequence)
      seen = new Map(last.map(({ tenant_id, last_sequence }) => [tenant_id, last_sequence]))
      return grown.map(({ tenant_id }) => ({ id: tenant_id }))
    },
    hint_every_ms: (hints) => Math.min(HINT_EVERY_MS * 2 ** hints, FEED_HINT_MS),
    close_ms: 0,
  })
}

function createWaiters(queue: Queue, log: Log, { poll: look, hint_every_ms, close_ms }: WaitedFor): Waiters {
  const listening = new Map<string, Set<Wait>>()
  let polled_at = performance.now()
  let polling = false
  let closed = false
  let count = 0

  function heard(published: { id: string }[]): void {
    for (const { id } of published) listening.get(id)?.forEach(({ hear }) => hear())
  }

  // A published message can be lost with its connection, so the database is polled as well.
  function poll(): void {
    const due_ms = queue.away() ? AWAY_POLL_MS : POLL_MS
    if (polling || performance.now() - polled_at < due_ms) return
    polling = true
    look(Array.from(listening.keys()))
      .then(heard, (error: unknown) => log.debug({ err: error }, 'waiters could not poll'))
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

  function leave(id: string, wait: Wait): void {
    const others = listening.get(id)
    if (others?.delete(wait) === true) count -= 1
    if (others?.size === 0) listening.delete(id)
    pollWhileListening()
  }

  return {
    heard,
    listen(id, wait_ms) {
      if (id === null) return OF_NONE
      const over = closed || wait_ms === 0 || count >= MOST_WAITERS
      const wait = createWait({ over, wait_ms, hint_every_ms, onEnd: () => leave(id, wait) })
      if (!over) {
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
      }, close_ms).unref()
    },
  }
}

/** One wait, which hears hints and passes them on. */
type Wait = Hints & { hear: () => void; end: () => void }

/** `over`: there is nothing to wait for. `onEnd`: called each time that the wait is ended. */
function createWait({
  over,
  wait_ms,
  hint_every_ms,
  onEnd,
}: Pick<WaitedFor, 'hint_every_ms'> & { over: boolean; wait_ms: number; onEnd: () => void }): Wait {
  let hinted = false
  let hints = 0
  let told_at = -Infinity
  let resolve: ((more: boolean) => void) | undefined
  let later: NodeJS.Timeout | undefined

  function tell(): void {
    if (resolve === undefined || (!hinted && !over)) return
    const rest_ms = over ? 0 : told_at + hint_every_ms(hints) - performance.now()
    if (rest_ms > 0) {
      later ??= setTimeout(() => {
        later = undefined
        tell()
      }, rest_ms)
      return
    }
    hinted = false
    hints += 1
    told_at = performance.now()
    resolve(!over)
    resolve = undefined
  }

  function end(): void {
    over = true
    clearTimeout(timeout)
    clearTimeout(later)
    onEnd()
    tell()
  }

  const timeout = over ? undefined : setTimeout(end, wait_ms)
  return {
    hear() {
      hinted = true
      tell()
    },
    end,
    next: () =>
      new Promise((given) => {
        resolve = given
        tell()
      }),
    [Symbol.dispose]: end,
  }
}
