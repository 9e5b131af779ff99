// The open and opening connections of a pool. Each is a pool of the driver with one connection. A connection that
// closed is not used again.
import type { Sql } from '../db.ts'
import { losesConnection, isReadOnlyServer } from './connection-errors.ts'

/** A connection that was not used for this long closes, unless it is the only one. */
const IDLE_LIMIT_MS = 120_000
/** The time limit of the statement that opens a connection: PgBouncer may let it wait. */
const OPEN_LIMIT_MS = 20_000
/** The minimum time between two replacements because the server has become read-only. */
const READ_ONLY_INTERVAL_MS = 250

export type Connection = {
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

export type SetOptions = {
  /** Creates a driver with one connection, and calls `onclose` when it closes or must not be used any more. */
  open: (onclose: () => void) => Sql
  /** Sends a statement that opens the connection, or tests it. */
  ping: (driver: Sql, opens: boolean) => PromiseLike<unknown>
  /** Ends a driver on whose connection something may still run: it has a moment to finish. */
  drain: (driver: Sql) => void
}

export type Work = (connection: Connection) => PromiseLike<unknown>
type OnEnd = (connection: Connection, was_open: boolean, error: unknown) => void

/** The connections that are open or opening. */
export function createConnectionSet({ open, ping, drain }: SetOptions) {
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

  const pingOn = ({ driver, is_open }: Connection) => ping(driver, !is_open)

  return {
    all: () => all,
    isBusy: () => all.some(({ running }) => running > 0),
    open(onEnd: OnEnd): void {
      const connection: Connection = connectionOf(open(() => discard(connection)))
      all = [...all, connection]
      const timer = setTimeout(() => discard(connection), OPEN_LIMIT_MS).unref()
      run(connection, pingOn, (...ended) => {
        clearTimeout(timer)
        onEnd(...ended)
      })
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

function connectionOf(driver: Sql): Connection {
  // The driver's types lack `handler`, which sends a statement.
  const handle = Reflect.get(driver`select`, 'handler') as Connection['handle']
  const state = { running: 0, in_transaction: false, is_open: false, uses: 0, used_at: 0, pinged_at: 0 }
  return { driver, handle, ...state }
}
