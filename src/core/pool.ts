// Connection pools to Postgres. The workarounds for faults of the driver are in `postgres/`.
import type { Sql } from './db.ts'
import { measurePool } from './postgres/connection-waits.ts'
import { createConnections, type Statement } from './postgres/connections.ts'
import { AUTHENTICATION_LIMIT_MS, openDriver, type DriverOptions } from './postgres/driver.ts'
import { drainDriver } from './postgres/lost-connections.ts'
import { dropHoles } from './postgres/row-holes.ts'
import { createTarget } from './postgres/servers.ts'
import { ANSWER_LIMIT_MS, CHECK_MS, PING_INTERVAL_MS, giveUpRunning, isSilent } from './postgres/silence.ts'
import { cancelAfter } from './postgres/statement-limits.ts'
import { everyTick } from './ticks.ts'
import { trackStatement, createTraffic, type StatementHooks } from './postgres/traffic.ts'
import { beginTransaction } from './postgres/transactions.ts'

type PoolOptions = DriverOptions & {
  /** After this many statements and transactions a connection is replaced. Default: 200,000. */
  max_uses?: number
  /**
   * The name of the pool in the metrics. Without it, the pool is not measured, and answers in transactions may take as
   * long as the server needs: commands read whole tables.
   */
  pool_name?: string
}

/** A transaction that would stay open on the connection. The driver refuses it in pools of several connections. */
const BARE_BEGIN = /^\s*(begin|start\s+transaction)\b/i

const pending = new WeakMap<Sql, () => number>()
/** Replaces the connections of each open pool of this process. */
const renewals = new Set<() => void>()
const silence_listeners = new Set<() => void>()

/**
 * Opens a pool. Connections are opened on demand, and close after two minutes without use. All of them are replaced
 * when one becomes silent; running statements have a moment to finish. Errors: those of postgres.js (`code` is the
 * SQLSTATE or a socket error).
 */
export function connectDatabase(url: string, options: PoolOptions): Sql {
  const { max_uses, pool_name, max, statement_timeout_ms } = options
  const target = createTarget(url)
  const { pgbouncer } = target.address
  const traffic = createTraffic()
  const connections = createConnections({
    max,
    max_uses,
    // PgBouncer may give the session to another client before the answer to a statement that follows another.
    shares: !pgbouncer,
    open: (onclose) => openDriver(target, { ...options, max: 1 }, onclose),
    ping,
    drain: (driver) => drainDriver(driver, target.open_limit_ms + AUTHENTICATION_LIMIT_MS),
  })
  const measured = pool_name === undefined ? undefined : measurePool(pool_name, max, connections)
  // Creates statements and fragments, and never connects.
  const maker = openDriver(target, options, () => {})

  function replace(): void {
    giveUpRunning(traffic)
    connections.replace(ANSWER_LIMIT_MS)
  }

  function ping(driver: Sql, opens: boolean): PromiseLike<unknown> {
    const statement = driver`select 1`
    // Connections that open slowly say nothing about the others.
    if (!opens) trackStatement(statement, traffic, PING_INTERVAL_MS, { onRows: dropHoles })
    return statement
  }

  function check(): void {
    if (isSilent(traffic)) replaceAndReport(replace)
    connections.check(PING_INTERVAL_MS)
  }

  /** The statement waits while no connection is open, or all of them are in transactions, and shows their silence. */
  function sendPing(): void {
    if (!connections.hasIdle() && traffic.pending.size === 0) void sql`select 1`.catch(() => {})
  }

  const timers = [everyTick(check, CHECK_MS), everyTick(sendPing, PING_INTERVAL_MS)]
  renewals.add(replace)

  const hooks: StatementHooks = {
    onSend(statement) {
      // PgBouncer does not let a session have its own timeout.
      if (!pgbouncer || statement_timeout_ms === undefined) return undefined
      return cancelAfter(statement, statement_timeout_ms)
    },
    onRows: dropHoles,
  }

  function send(statement: Statement): void {
    measured?.statement(statement)
    connections.send(statement)
  }

  function tracked(result: unknown): unknown {
    if (!(result instanceof Promise)) return result
    trackStatement(result, traffic, ANSWER_LIMIT_MS, hooks)
    // The driver calls `handler` after the statement is first awaited.
    return Object.assign(result, { handler: send })
  }

  const limit_ms = pool_name === undefined ? Infinity : ANSWER_LIMIT_MS
  const begin = async (...args: unknown[]) =>
    await connections.begin(
      async (driver) => await beginTransaction(driver, args, { open: traffic.transactions, limit_ms }),
    )

  const members = {
    begin: measured?.measuring(begin) ?? begin,
    unsafe(...args: Parameters<Sql['unsafe']>) {
      if (max > 1) refuseBegin(args[0])
      return tracked(maker.unsafe(...args))
    },
    async reserve() {
      const { driver, release } = await connections.reserve()
      return Object.assign(driver, { release })
    },
    async end({ timeout }: { timeout?: number } = {}) {
      renewals.delete(replace)
      measured?.stop()
      for (const stop of timers) stop()
      await connections.end(timeout === undefined ? Infinity : timeout * 1000)
    },
  }

  const sql = new Proxy(maker, {
    apply(_target, _this, args: unknown[]) {
      const [strings] = args
      if (max > 1 && Array.isArray(strings) && 'raw' in strings) refuseBegin(strings[0])
      return tracked(Reflect.apply(maker, undefined, args))
    },
    get: (_target, name) => Reflect.get(Object.hasOwn(members, name) ? members : maker, name) as unknown,
  })
  pending.set(sql, () => traffic.pending.size)
  return sql
}

function replaceAndReport(replace: () => void): void {
  replace()
  for (const listener of silence_listeners) listener()
}

function refuseBegin(text: unknown): void {
  if (typeof text === 'string' && BARE_BEGIN.test(text))
    throw new Error('a transaction of a pool needs `begin`')
}

/**
 * Calls `listener` whenever a connection of a pool of this process has become silent, and returns a function that ends
 * this. For connections of other drivers to the same server, which do not notice their own silence.
 */
export function onSilentConnection(listener: () => void): () => void {
  silence_listeners.add(listener)
  return () => void silence_listeners.delete(listener)
}

/** Replaces all connections of this process to databases: their address may have moved to another server. */
export function renewConnections(): void {
  for (const renew of renewals) renew()
}

/** The number of running and waiting statements of this pool. */
export function countPendingStatements(sql: Sql): number {
  return pending.get(sql)?.() ?? 0
}
