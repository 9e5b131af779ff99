// The connections of a pool. The driver would give statements to its connections in turns, so that each of them plans
// every statement. Here the first free connection gets the next statement, and the seldom used connections close.
// Each connection is a pool of the driver with one connection. A connection that closed is not used again.
import { setTimeout as sleep } from 'node:timers/promises'
import { databaseCode, type Sql } from '../db.ts'
import { endsConnection, isReadOnlyServer, isSocketCode } from './connection-errors.ts'

/** A connection that was not used for this long closes, unless it is the only one. */
const IDLE_LIMIT_MS = 120_000
/** A connection is replaced after this many uses, because its session keeps the plan of each different statement. */
const MAX_USES = 200_000
/** The largest number of statements that share a connection: the driver sends no more at once. */
const MAX_SHARED = 100

type Connection = {
  driver: Sql
  /** Sends a statement of another driver with the same options. */
  handle: (statement: object) => void
  /** The number of statements and transactions that have not ended. */
  running: number
  in_transaction: boolean
  /** Whether the server has answered. */
  is_open: boolean
  uses: number
  used_at: number
}

/** A statement of the driver that is not sent yet. */
type Statement = PromiseLike<unknown> & { cancelled: unknown; reject(error: unknown): void }

type Begin = (...args: unknown[]) => Promise<unknown>
type Work = (connection: Connection) => PromiseLike<unknown>
/** `fail` is called instead of `work` if no connection can be opened. */
type Use = { work: Work; fail: (error: unknown) => void; is_transaction: boolean }

export type PooledConnections = {
  /** Sends a statement as soon as a connection is free. */
  send: (statement: Statement) => void
  /** `begin` of the driver. */
  begin: Begin
  /**
   * Calls `ping` with the driver of each free connection, and closes those that were not used for long. Returns whether
   * there was one.
   */
  checkFree(ping: (driver: Sql) => PromiseLike<unknown>): boolean
  hasFree(): boolean
  count(): { open: number; busy: number }
  /** Ends all connections. What waits for a connection gets a new one. */
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
  /** Opens a driver with one connection, and calls `onclose` when it closes or must not be used any more. */
  open: (onclose: () => void) => Sql
  /** Ends a driver. What runs on its connection has a moment to finish. */
  close: (driver: Sql) => void
}

export function createConnections(options: ConnectionsOptions): PooledConnections {
  const { max, max_uses = MAX_USES, shares, open, close } = options
  const waiting: Use[] = []
  let all: Connection[] = []
  let ended = false
  let onQuiet = () => {}

  const isQuiet = () => waiting.length === 0 && all.every(({ running }) => running === 0)

  function openAnother(): Connection | undefined {
    if (all.length >= max) return undefined
    const connection: Connection = connectionOf(open(() => discard(connection)))
    all.push(connection)
    return connection
  }

  function discard(connection: Connection): void {
    if (!all.includes(connection)) return
    all = all.filter((each) => each !== connection)
    close(connection.driver)
  }

  function enter(use: Use): void {
    if (ended) return use.fail(errorWith('CONNECTION_ENDED', 'the pool has ended'))
    if (waiting.length > 0 || !start(use)) waiting.push(use)
  }

  /** Starts a use. Returns false if it must wait. */
  function start({ work, is_transaction }: Use): boolean {
    const usable = all.filter(({ uses }) => uses < max_uses)
    const connection =
      usable.find(({ running }) => running === 0) ??
      openAnother() ??
      (shares && !is_transaction ? leastBusy(usable) : undefined)
    if (connection === undefined) return false
    connection.uses += 1
    connection.used_at = Date.now()
    connection.in_transaction = is_transaction
    run(connection, work)
    return true
  }

  function run(connection: Connection, work: Work): void {
    connection.running += 1
    work(connection).then(
      () => release(connection, undefined),
      (error: unknown) => release(connection, error),
    )
  }

  function release(connection: Connection, error: unknown): void {
    connection.running -= 1
    const is_lost = endsConnection(error) || isSocketCode(databaseCode(error) ?? '')
    if (isReadOnlyServer(error) && all.includes(connection)) replace()
    if (is_lost || (connection.uses >= max_uses && connection.running === 0)) discard(connection)
    else connection.is_open = true
    // A server that cannot be reached refuses the others too.
    if (is_lost && !connection.is_open && !all.some(({ is_open }) => is_open)) failWaiting(error)
    startWaiting()
    if (ended && isQuiet()) onQuiet()
  }

  function startWaiting(): void {
    while (waiting.length > 0 && start(waiting[0]!)) waiting.shift()
  }

  function failWaiting(error: unknown): void {
    for (const { fail } of waiting.splice(0)) fail(error)
  }

  function replace(): void {
    for (const { driver } of all.splice(0)) close(driver)
    startWaiting()
  }

  return {
    send: (statement) => enter(sending(statement)),
    begin: (...args) => new Promise((resolve, reject) => enter(beginning(args, resolve, reject))),
    checkFree(ping) {
      const unused_since = Date.now() - IDLE_LIMIT_MS
      const free = all.filter(({ running }) => running === 0)
      for (const connection of free)
        if (connection.used_at < unused_since && all.length > 1) discard(connection)
        else run(connection, ({ driver }) => ping(driver))
      return free.length > 0
    },
    hasFree: () => all.some(({ running }) => running === 0),
    count: () => ({ open: all.length, busy: all.filter(({ running }) => running > 0).length }),
    replace,
    async end(limit_ms) {
      ended = true
      const quiet = new Promise<void>((resolve) => (onQuiet = resolve))
      if (!isQuiet()) await Promise.race([quiet, ...(limit_ms === Infinity ? [] : [sleep(limit_ms)])])
      failWaiting(errorWith('CONNECTION_DESTROYED', 'the pool ended before the statement was sent'))
      await Promise.all(all.map(({ driver }) => driver.end({ timeout: 0 })))
    },
  }
}

function connectionOf(driver: Sql): Connection {
  const handle = Reflect.get(driver`select`, 'handler') as Connection['handle']
  return { driver, handle, running: 0, in_transaction: false, is_open: false, uses: 0, used_at: 0 }
}

/** Of several statements on a connection, the driver sends all and gets the answers in this order. */
function leastBusy(connections: Connection[]): Connection | undefined {
  return connections
    .filter(({ is_open, in_transaction, running }) => is_open && !in_transaction && running < MAX_SHARED)
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
  return {
    is_transaction: true,
    work({ driver }) {
      const transaction = (driver as unknown as { begin: Begin }).begin(...args)
      resolve(transaction)
      return transaction
    },
    fail: reject,
  }
}

function errorWith(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}
