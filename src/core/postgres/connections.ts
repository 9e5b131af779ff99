// The connections of a pool. postgres.js uses the connections of a pool round robin, so each session plans every
// statement. Here the first idle connection gets the next statement, and rarely used connections close.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Sql } from '../db.ts'
import { createConnectionSet, type Connection, type SetOptions, type Work } from './connection-set.ts'

/** A connection is replaced after this many uses, because its session keeps the plan of each different statement. */
const MAX_USES = 200_000
/** The largest number of statements that share a connection: the driver sends no more at once. */
const MAX_SHARED = 100
/** The pauses between attempts to open a connection, after attempts that failed. */
const BACKOFF = { min_ms: 25, max_ms: 250 }

/** A statement of the driver that is not sent yet. */
export type Statement = PromiseLike<unknown> & { cancelled: unknown; reject(error: unknown): void }

type Beginning = (driver: Sql) => Promise<unknown>
type Reserved = { driver: Sql; release: () => void }
/** `fail` is called instead of `work` if no connection can be opened, or the pool has ended. */
type Use = { work: Work; fail: (error: unknown) => void; is_transaction: boolean; entered_at: number }

export type PooledConnections = {
  /** Sends a statement as soon as a connection is free. */
  send: (statement: Statement) => void
  /** Begins a transaction on a connection that is for the transaction alone until its end. */
  begin: (start: Beginning) => Promise<unknown>
  /** A driver for the caller alone, until the caller calls `release`. */
  reserve: () => Promise<Reserved>
  /** Pings the connections without traffic in the last `interval_ms`, and closes those that were not used for long. */
  check(interval_ms: number): void
  hasIdle(): boolean
  count(): { open: number; busy: number }
  /**
   * Ends all connections. Waiting statements and transactions get new ones, except those that have waited for
   * `limit_ms`: they fail.
   */
  replace(limit_ms: number): void
  /** Ends all connections when nothing waits or runs, or after `limit_ms`. Nothing else is sent from now on. */
  end(limit_ms: number): Promise<void>
}

type ConnectionsOptions = SetOptions & {
  max: number
  /** Default: 200,000. */
  max_uses?: number | undefined
  /**
   * Whether a statement is sent behind others while all connections are busy: the way to a distant server takes longer
   * than a statement. False: it waits until a connection is free.
   */
  shares: boolean
}

export function createConnections(options: ConnectionsOptions): PooledConnections {
  const { max, max_uses = MAX_USES, shares } = options
  const set = createConnectionSet(options)
  const waiting: Use[] = []
  const backoff = createBackoff(() => startWaiting())
  let ending: Promise<void> | undefined
  let onQuiet = () => {}

  const mayOpen = () => set.all().length < max && !backoff.isActive()

  function enter(use: Use): void {
    if (ending !== undefined) return use.fail(errorWith('CONNECTION_ENDED', 'the pool has ended'))
    if (waiting.length === 0 && start(use)) return
    waiting.push(use)
    openForWaiting()
  }

  /** Starts a use. Returns false if it must wait. */
  function start({ work, is_transaction }: Use): boolean {
    const all = set.all()
    const usable = all.filter(({ is_open, uses }) => is_open && uses < max_uses)
    const may_share = shares && !is_transaction && !mayOpen() && all.every(({ is_open }) => is_open)
    const connection =
      usable.find(({ running }) => running === 0) ?? (may_share ? leastBusy(usable) : undefined)
    if (connection === undefined) return false
    connection.uses += 1
    connection.in_transaction = is_transaction
    set.run(connection, work, release)
    return true
  }

  function openForWaiting(): void {
    let opening = set.all().filter(({ is_open }) => !is_open).length
    for (; opening < waiting.length && mayOpen(); opening++) set.open(release)
  }

  function startWaiting(): void {
    while (waiting.length > 0 && start(waiting[0]!)) waiting.shift()
    openForWaiting()
  }

  function failWaiting(error: unknown): void {
    for (const { fail } of waiting.splice(0)) fail(error)
  }

  /** Called at the end of each use and ping. `was_open`: false for the ping that opens the connection. */
  function release(connection: Connection, was_open: boolean, error: unknown): void {
    if (error !== undefined && !was_open) {
      backoff.start()
      // A server that cannot be reached refuses all that waits. None of it was sent.
      if (set.all().length === 0) failWaiting(error)
    } else if (!was_open) backoff.reset()
    if (connection.uses >= max_uses && connection.running === 0) set.discard(connection)
    startWaiting()
    if (ending !== undefined && isQuiet()) onQuiet()
  }

  const isQuiet = () => waiting.length === 0 && !set.isBusy()

  async function endWithin(limit_ms: number): Promise<void> {
    const quiet = new Promise<void>((resolve) => (onQuiet = resolve))
    const timer = limit_ms === Infinity ? undefined : setTimeout(() => onQuiet(), limit_ms)
    if (!isQuiet()) await quiet
    clearTimeout(timer)
    failWaiting(errorWith('CONNECTION_DESTROYED', 'the pool ended before the statement was sent'))
    await Promise.all(set.all().map(({ driver }) => driver.end({ timeout: 0 })))
  }

  return {
    send: (statement) => enter(sending(statement)),
    begin: (start) => new Promise((resolve, reject) => enter(beginning(start, resolve, reject))),
    reserve: () => new Promise((resolve, reject) => enter(reserving(resolve, reject))),
    check: (interval_ms) => set.check(interval_ms, release),
    hasIdle: () => set.all().some(({ is_open, running }) => is_open && running === 0),
    count() {
      const all = set.all()
      return { open: all.length, busy: all.filter(({ running }) => running > 0).length }
    },
    replace(limit_ms) {
      set.discardAll()
      const until = performance.now() - limit_ms
      while (waiting.length > 0 && waiting[0]!.entered_at <= until)
        waiting.shift()!.fail(errorWith('CONNECT_TIMEOUT', 'the server has answered on no connection'))
      startWaiting()
    },
    end: (limit_ms) => (ending ??= endWithin(limit_ms)),
  }
}

/** The pauses between attempts to open a connection. Calls `onEnd` at the end of a pause. */
function createBackoff(onEnd: () => void) {
  let failures = 0
  let timer: NodeJS.Timeout | undefined

  function end(): void {
    timer = undefined
    onEnd()
  }

  return {
    isActive: () => timer !== undefined,
    start(): void {
      if (timer !== undefined) return
      timer = setTimeout(end, Math.min(BACKOFF.min_ms * 2 ** failures, BACKOFF.max_ms))
      failures += 1
    },
    reset(): void {
      failures = 0
    },
  }
}

/** Of several statements on a connection, the driver sends all and gets the answers in this order. */
function leastBusy(connections: readonly Connection[]): Connection | undefined {
  return connections
    .filter(({ in_transaction, running }) => !in_transaction && running < MAX_SHARED)
    .reduce<Connection | undefined>((a, b) => (a === undefined || b.running < a.running ? b : a), undefined)
}

function sending(statement: Statement): Use {
  return {
    is_transaction: false,
    entered_at: performance.now(),
    work({ handle }) {
      if (!statement.cancelled) handle(statement)
      return statement
    },
    fail: (error) => statement.reject(error),
  }
}

function beginning(
  start: Beginning,
  resolve: (transaction: Promise<unknown>) => void,
  reject: (error: unknown) => void,
): Use {
  // Another caller's statement may end the wait, and the work of the transaction reads its caller's context.
  const inContext = AsyncLocalStorage.snapshot()
  return {
    is_transaction: true,
    entered_at: performance.now(),
    work({ driver }) {
      const transaction = inContext(() => start(driver))
      resolve(transaction)
      return transaction
    },
    fail: reject,
  }
}

function reserving(resolve: (reserved: Reserved) => void, reject: (error: unknown) => void): Use {
  return {
    is_transaction: true,
    entered_at: performance.now(),
    work: ({ driver }) => new Promise<void>((release) => resolve({ driver, release })),
    fail: reject,
  }
}

function errorWith(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}
