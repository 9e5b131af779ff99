// Connection pools to Postgres. The workarounds for faults of the driver are in `postgres/`, one file for each fault.
import type { Sql } from './db.ts'
import { isReadOnlyServer } from './postgres/connection-errors.ts'
import { measurePool, type Begin } from './postgres/connection-waits.ts'
import { AUTHENTICATION_LIMIT_MS, openDriver, type DriverOptions } from './postgres/driver.ts'
import { MAX_POOL_STATEMENTS } from './postgres/growing-queues.ts'
import { endReplacedPool } from './postgres/lost-connections.ts'
import { NOT_SIMPLE, sendAlone } from './postgres/pipelines.ts'
import { dropHoles } from './postgres/row-holes.ts'
import { createTarget } from './postgres/servers.ts'
import { ANSWER_LIMIT_MS, CHECK_MS, PING_INTERVAL_MS, countPings, isSilent } from './postgres/silence.ts'
import { debounceReplace } from './postgres/stuck-writes.ts'
import { cancelAfter } from './postgres/statement-limits.ts'
import { trackStatement, createTraffic, type StatementHooks } from './postgres/traffic.ts'

type PoolOptions = DriverOptions & {
  /** After this many statements the pool is replaced. Default: 50,000. */
  max_statements?: number
  /** The name of the pool in the metrics. Without it, the pool is not measured. */
  pool_name?: string
}

/** The time in seconds that a replaced pool has to finish its statements. */
const DRAIN_TIMEOUT_S = 2

const pending = new WeakMap<Sql, () => number>()
/** Replaces the connections of each open pool of this process. */
const renewals = new Set<() => void>()

/**
 * Opens a pool. Connections are opened on demand. The driver's pool is replaced when a connection closes or becomes
 * silent, and after many statements; a replaced pool finishes its running statements. Errors: those of postgres.js
 * (`code` is the SQLSTATE or a socket error).
 */
export function connectDatabase(url: string, options: PoolOptions): Sql {
  const { max_statements = MAX_POOL_STATEMENTS, pool_name, max, statement_timeout_ms } = options
  const target = createTarget(url)
  const closing = debounceReplace(() => replace())
  let pool = open()
  let traffic = createTraffic()
  let ended = false
  const measured = pool_name === undefined ? undefined : measurePool(pool_name, max, () => traffic)

  function open(): Sql {
    const opened: Sql = openDriver(target, options, () => {
      if (opened === pool && !ended) closing.closed()
    })
    return opened
  }

  function replace(drain_timeout_s = DRAIN_TIMEOUT_S): void {
    closing.cancel()
    if (ended) return
    endReplacedPool(pool, drain_timeout_s, target.open_limit_ms + AUTHENTICATION_LIMIT_MS)
    pool = open()
    traffic = createTraffic()
  }

  function sendPings(): void {
    for (let count = countPings(traffic, max); count > 0; count--) {
      const ping = pool`select 1`
      if (target.address.pgbouncer) sendAlone(ping)
      trackStatement(ping, traffic, PING_INTERVAL_MS, { onRows: dropHoles })
      ping.catch(() => {})
    }
  }

  function check(): void {
    if (isSilent(traffic)) replace()
    else if (traffic.sent >= max_statements) replace(ANSWER_LIMIT_MS / 1000)
  }

  const timers = [setInterval(sendPings, PING_INTERVAL_MS).unref(), setInterval(check, CHECK_MS).unref()]

  const hooks: StatementHooks = {
    onSend(statement) {
      measured?.statement(statement)
      if (!target.address.pgbouncer) return undefined
      sendAlone(statement)
      // PgBouncer does not let a session have its own timeout.
      return statement_timeout_ms === undefined ? undefined : cancelAfter(statement, statement_timeout_ms)
    },
    onRows: dropHoles,
    onError(error) {
      // The server has become a standby: another host, or another server of this name, may be the primary.
      if (isReadOnlyServer(error) && !ended) closing.closed()
    },
  }

  const renew = () => replace()
  renewals.add(renew)

  async function end(limit?: { timeout?: number }): Promise<void> {
    ended = true
    renewals.delete(renew)
    measured?.stop()
    closing.cancel()
    for (const timer of timers) clearInterval(timer)
    await pool.end(limit)
  }

  function tracked(result: unknown): unknown {
    if (result instanceof Promise) trackStatement(result, traffic, ANSWER_LIMIT_MS, hooks)
    return result
  }

  const proxy = new Proxy(pool, {
    apply: (_target, _this, args: unknown[]) => tracked(Reflect.apply(pool, undefined, args)),
    get(_target, name) {
      if (name === 'end') return end
      if (name === 'unsafe')
        return (...[text, parameters = [], more = {}]: Parameters<Sql['unsafe']>) =>
          tracked(pool.unsafe(text, parameters, target.address.pgbouncer ? { ...NOT_SIMPLE, ...more } : more))
      const value: unknown = Reflect.get(pool, name)
      return name === 'begin' && measured !== undefined ? measured.transaction(value as Begin) : value
    },
  })
  pending.set(proxy, () => traffic.pending.size)
  return proxy
}

/** Replaces all connections of this process to databases: their address may have moved to another server. */
export function renewConnections(): void {
  for (const renew of renewals) renew()
}

/** The number of running and waiting statements of this pool. */
export function countPendingStatements(sql: Sql): number {
  return pending.get(sql)?.() ?? 0
}
