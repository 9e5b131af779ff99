// The connections of a pool. postgres.js uses the connections of a pool round robin, so each session plans every
// statement. Here the first idle connection gets the next statement, and rarely used connections close. Each connection
// is a pool of the driver with one connection. A connection that closed is not used again.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Sql } from '../db.ts'
import { losesConnection, isReadOnlyServer } from './connection-errors.ts'

/** A connection that was not used for this long closes, unless it is the only one. */
const IDLE_LIMIT_MS = 120_000
/** A connection is replaced after this many uses, because its session keeps the plan of each different statement. */
const MAX_USES = 200_000
/** The largest number of statements that share a connection: the driver sends no more at once. */
const MAX_SHARED = 100
/** The pauses between attempts to open a connection, after attempts that failed. */
const BACKOFF = { min_ms: 25, max_ms: 250 }
/** The minimum time between two replacements because the server has become read-only. */
const READ_ONLY_INTERVAL_MS = 250

type Connection = {
  driver: Sql
  /** Sends a statement of another driver with the same options. */
  handle: (statement: object) => void
  /** The number of statements and transactions that have not ended. */
  running: number
  in_transaction: boolean
  /** Whether its first statement is answered; nothing else is sent before. */
  is_open: boolean
  uses: number
  used_at: number
  pinged_at: number
}

/** A statement of the driver that is not sent yet. */
export type Statement = PromiseLike<unknown> & { cancelled: unknown; reject(error: unknown): void }

type Begin = (...args: unknown[]) => Promise<unknown>
type Reserved = { driver: Sql; release: () => void }
type Work = (connection: Connection) => PromiseLike<unknown>
/** `fail` is called instead of `work` if no connection can be opened, or the pool has ended. */
type Use = { work: Work; fail: (error: unknown) => void; is_transaction: boolean }

export type PooledConnections = {
  /** Sends a statement as soon as a connection is free. */
  send: (statement: Statement) => void
  /** `begin` of the driver. */
  begin: Begin
  /** A driver for the caller alone, until the caller calls `release`. */
  reserve: () => Promise<Reserved>
  /** Pings the connections without traffic in the last `interval_ms`, and closes those that were not used for long. */
  check(interval_ms: number): void
  hasIdle(): boolean
  count(): { open: number; busy: number }
  /** Ends all connections. Waiting statements and transactions get new ones. */
  replace(): void
  /** Ends all connections when nothing waits or runs, or after `limit_ms`. Nothing else is sent from now on. */
  end(limit_ms: number): Promise<void>
}

type ConnectionsOptions = {
  max: number
  /** Default: 200,000. */
  max_uses?: number | undefined
  /**
   * Whether a statement is sent behind others while all connections are busy: the way to a distant server takes longer
   * than a statement. False: it waits until a connection is free.
   */
  shares: boolean
  /** Creates a driver with one connection, and calls `onclose` when it closes or must not be used any more. */
  open: (onclose: () => void) => Sql
  /** Sends a statement that opens or tests the connection. */
  ping: (driver: Sql) => PromiseLike<unknown>
  /** Ends a driver on whose connection something may still run: it has a moment to finish. */
  drain: (driver: Sql) => void
}

export function createConnections(options: ConnectionsOptions): PooledConnections {
  const { max, max_uses = MAX_USES, shares } = options
  const set = createSet(options)
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
    begin: (...args) => new Promise((resolve, reject) => enter(beginning(args, resolve, reject))),
    reserve: () => new Promise((resolve, reject) => enter(reserving(resolve, reject))),
    check: (interval_ms) => set.check(interval_ms, release),
    hasIdle: () => set.all().some(({ is_open, running }) => is_open && running === 0),
    count() {
      const all = set.all()
      return { open: all.length, busy: all.filter(({ running }) => running > 0).length }
    },
    replace() {
      set.discardAll()
      startWaiting()
    },
    end: (limit_ms) => (ending ??= endWithin(limit_ms)),
  }
}

type OnEnd = (connection: Connection, was_open: boolean, error: unknown) => void

/** The connections that are open or opening. */
function createSet({ open, ping, drain }: Pick<ConnectionsOptions, 'open' | 'ping' | 'drain'>) {
  let all: readonly Connection[] = []
  let replaced_at = -Infinity

  function end({ driver, running }: Connection): void {
    if (running > 0) drain(driver)
    else void driver.end({ timeout: 0 }).catch(() => {})
  }

  function discard(connection: Connection): void {
    if (!all.includes(connection)) return
    all = all.filter((each) => each !== connection)
    end(connection)
  }

  function discardAll(): void {
    const discarded = all
    all = []
    discarded.forEach(end)
  }

  /** Runs `work` on a connection. A connection that was lost or could not be opened is discarded before `onEnd`. */
  function run(connection: Connection, work: Work, onEnd: OnEnd): void {
    const was_open = connection.is_open
    const settled = (error: unknown) => {
      connection.running -= 1
      if (error === undefined) connection.is_open = true
      else if (!was_open || losesConnection(error)) discard(connection)
      else if (isReadOnlyServer(error) && performance.now() - replaced_at >= READ_ONLY_INTERVAL_MS) {
        replaced_at = performance.now()
        discardAll()
      }
      onEnd(connection, was_open, error)
    }
    connection.running += 1
    connection.used_at = performance.now()
    work(connection).then(() => settled(undefined), settled)
  }

  const pingOn = ({ driver }: Connection) => ping(driver)

  return {
    all: () => all,
    isBusy: () => all.some(({ running }) => running > 0),
    open(onEnd: OnEnd): void {
      const connection: Connection = connectionOf(open(() => discard(connection)))
      all = [...all, connection]
      run(connection, pingOn, onEnd)
    },
    run,
    /** See `PooledConnections`. */
    check(interval_ms: number, onEnd: OnEnd): void {
      const now = performance.now()
      for (const connection of all.filter(({ running }) => running === 0)) {
        const { used_at, pinged_at } = connection
        if (now - used_at > IDLE_LIMIT_MS && all.length > 1) discard(connection)
        else if (now - Math.max(used_at, pinged_at) >= interval_ms) {
          run(connection, pingOn, onEnd)
          Object.assign(connection, { used_at, pinged_at: now })
        }
      }
    },
    discard,
    discardAll,
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

function connectionOf(driver: Sql): Connection {
  // The driver's types lack `handler`, which sends a statement.
  const handle = Reflect.get(driver`select`, 'handler') as Connection['handle']
  const state = { running: 0, in_transaction: false, is_open: false, uses: 0, used_at: 0, pinged_at: 0 }
  return { driver, handle, ...state }
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
    work({ handle }) {
      if (!statement.cancelled) handle(statement)
      return statement
    },
    fail: (error) => statement.reject(error),
  }
}

function beginning(
  args: unknown[],
  resolve: (transaction: Promise<unknown>) => void,
  reject: (error: unknown) => void,
): Use {
  // Another caller's statement may end the wait, and the work of the transaction reads its caller's context.
  const inContext = AsyncLocalStorage.snapshot()
  return {
    is_transaction: true,
    work({ driver }) {
      const transaction = inContext(() => (driver as unknown as { begin: Begin }).begin(...args))
      resolve(transaction)
      return transaction
    },
    fail: reject,
  }
}

function reserving(resolve: (reserved: Reserved) => void, reject: (error: unknown) => void): Use {
  return {
    is_transaction: true,
    work: ({ driver }) => new Promise<void>((release) => resolve({ driver, release })),
    fail: reject,
  }
}

function errorWith(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}
