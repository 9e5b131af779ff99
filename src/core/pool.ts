// Connection pools to Postgres, with the types and planner settings that the rest of the code relies on.
import postgres from 'postgres'
import { need, type Config } from './config.ts'
import type { Log } from './log.ts'
import { isoFromPostgres } from './time.ts'
import { isUnavailable, type Sql } from './db.ts'

type PoolOptions = {
  max: number
  application_name: string
  statement_timeout_ms?: number
  /** Times are read and written as `Date`, which loses microseconds: for libraries that expect that. */
  dates?: boolean
  /** After this many statements the pool is replaced; 50,000 by default. */
  renew_after?: number
}

/** Connections that are lost within this time have one cause: they are replaced by one new pool. */
const REPLACE_AFTER_MS = 250
/**
 * An old pool ends only after this: postgres.js forgets a connection that is still being made when its pool ends, and
 * leaks it.
 */
const CONNECTED_MS = 1_000
/** How long an old pool may finish its statements; those that still wait then are rejected. */
const OLD_POOL_S = 2
/**
 * postgres.js 3.4 keeps an entry for each statement that it gave to a busy connection, and walks through all of them for
 * the next one: after a million statements each costs as much processor time as a whole job. Only a new pool forgets
 * them.
 */
const RENEW_AFTER = 50_000
/** A connection can go silent without closing. One that does not answer `select 1` in this time is given up. */
const GREETING_MS = 8_000
/** The server ends each statement before this (`statement_timeout`), so no answer will come after it. */
const SILENT_MS = 15_000
/**
 * How often silence is checked for. It is measured in checks, not in time: after this process was frozen, answers may
 * have arrived that it has not read yet.
 */
const LOOK_MS = 1_000
const STATEMENT_MS = 12_000

/**
 * Opens a pool. Connections are made when first needed. Errors: those of postgres.js (`code` is the SQLSTATE or a
 * socket error).
 *
 * When a connection is lost or goes silent, the whole pool is replaced behind the returned value: in postgres.js 3.4 a
 * connection that closes while a write is scheduled never writes again, and its statements would wait for ever. A pool
 * that has sent many statements is replaced too, without losing any.
 */
export function connectDatabase(url: string, options: PoolOptions): Sql {
  const { renew_after = RENEW_AFTER } = options
  let pool = open()
  let load = noLoad()
  let replacing: NodeJS.Timeout | undefined
  let ended = false

  function open(): Sql {
    const opened: Sql = openPool(url, options, () => {
      if (opened === pool && !ended) replacing ??= setTimeout(() => replace(), REPLACE_AFTER_MS)
    })
    return opened
  }
  function replace(finish_s = OLD_POOL_S): void {
    clearTimeout(replacing)
    replacing = undefined
    if (ended) return
    const old = pool
    pool = open()
    load = noLoad()
    setTimeout(() => void old.end({ timeout: finish_s }).catch(() => {}), CONNECTED_MS).unref()
  }
  /** Sends `select 1` on every idle connection; busy ones are watched by their own statements. */
  function greet(): void {
    const idle = Math.max(1, Math.min(options.max, load.peak) - load.under_way.size)
    for (let n = 0; n < idle; n++) {
      const greeting = pool`select 1`
      watch(greeting, GREETING_MS)
      greeting.catch(() => {})
    }
  }
  function watch(query: PromiseLike<unknown>, patience_ms = SILENT_MS): void {
    const counted = load
    const then = query.then.bind(query)
    // oxlint-disable-next-line unicorn/no-thenable -- postgres.js sends a query when `then` is called, so its time begins there
    query.then = (...given) => {
      counted.under_way.set(query, { patience_ms, looks: 0 })
      counted.sent += 1
      counted.peak = Math.max(counted.peak, counted.under_way.size)
      const answered = () => {
        counted.under_way.delete(query)
        counted.quiet = 0
      }
      then((rows) => {
        answered()
        dropHoles(rows)
      }, answered)
      return then(...given)
    }
  }
  /**
   * A query that waits behind others is not late by itself: so only active ones are counted, or all of them while
   * nothing is answered.
   */
  function look(): void {
    load.quiet = load.under_way.size === 0 ? 0 : load.quiet + 1
    let silent = load.quiet * LOOK_MS >= SILENT_MS
    for (const [query, one] of load.under_way) {
      if (!isActive(query)) continue
      one.looks += 1
      silent ||= one.looks * LOOK_MS >= one.patience_ms
    }
    if (silent) replace()
    // Nothing is wrong with the old pool: its statements may finish.
    else if (load.sent >= renew_after) replace(SILENT_MS / 1000)
  }
  const timers = [setInterval(greet, GREETING_MS).unref(), setInterval(look, LOOK_MS).unref()]
  async function end(limit?: { timeout?: number }): Promise<void> {
    ended = true
    clearTimeout(replacing)
    for (const timer of timers) clearInterval(timer)
    await pool.end(limit)
  }
  const proxy = new Proxy(pool, {
    apply(_target, _this, given: unknown[]) {
      const made: unknown = Reflect.apply(pool, undefined, given)
      if (made instanceof Promise) watch(made)
      return made
    },
    get: (_target, name) => (name === 'end' ? end : Reflect.get(pool, name)),
  })
  counts.set(proxy, () => load.under_way.size)
  return proxy
}

/** The statements of one pool. */
type Load = {
  /** Queries without an answer yet; `looks`: how many checks have seen it active. */
  under_way: Map<unknown, { patience_ms: number; looks: number }>
  /** The most that were under way at once, which is how many connections the pool has made. */
  peak: number
  /** Checks since the last answer. */
  quiet: number
  /** Statements sent. */
  sent: number
}

function noLoad(): Load {
  return { under_way: new Map(), peak: 1, quiet: 0, sent: 0 }
}

/**
 * postgres.js 3.4 numbers the rows of an answer from where a statement stopped that failed after its first rows: the
 * next answer on that connection begins with as many holes.
 */
function dropHoles(rows: unknown): void {
  if (!Array.isArray(rows) || rows.length === 0 || 0 in rows) return
  rows.splice(0, Number(Object.keys(rows)[0]))
}

/** Whether a query of postgres.js is running on its connection; others wait behind it or for a connection. */
function isActive(query: unknown): boolean {
  return query instanceof Promise && Reflect.get(query, 'active') === true
}

const counts = new WeakMap<Sql, () => number>()
/** The most statements of listeners that may run or wait for each connection; further requests are refused. */
export const STATEMENTS_PER_CONNECTION = 500

/** How many statements of this pool are running or waiting. */
export function statementsUnderWay(sql: Sql): number {
  return counts.get(sql)?.() ?? 0
}

const TEXTS_OF_TIMES: postgres.PostgresType = {
  to: 1184,
  from: [1184],
  serialize: (value: string) => value,
  parse: isoFromPostgres,
}
const DATES: postgres.PostgresType = {
  to: 1184,
  from: [1184],
  serialize: (value: string | Date) => (value instanceof Date ? value.toISOString() : value),
  parse: (text: string) => new Date(isoFromPostgres(text)),
}

function openPool(url: string, options: PoolOptions, onclose: () => void): Sql {
  return postgres(url, {
    max: options.max,
    idle_timeout: 0,
    max_lifetime: null,
    connect_timeout: 5,
    backoff: (retries: number) => Math.min(0.05 * 2 ** retries, 1),
    connection: {
      application_name: options.application_name,
      TimeZone: 'UTC',
      DateStyle: 'ISO',
      statement_timeout: options.statement_timeout_ms ?? STATEMENT_MS,
      // Every statement here reads by key or along an index. A plan made while a table was empty is kept with the
      // prepared statement and would scan the table once it is full.
      plan_cache_mode: 'force_generic_plan',
      enable_seqscan: 'off',
      enable_hashjoin: 'off',
      enable_mergejoin: 'off',
      random_page_cost: 0.1,
      seq_page_cost: 0.1,
      jit: 'off',
    },
    // Otherwise the driver looks up array types on each new connection, in a promise that nobody awaits: if the
    // connection ends meanwhile, the unhandled rejection ends the process. The array types that we use are declared
    // here.
    fetch_types: false,
    types: {
      texts: { to: 1009, from: [1009], serialize: arrayLiteral, parse: elementsOf },
      uuids: { to: 2951, from: [2951], serialize: arrayLiteral, parse: elementsOf },
      bigint: { to: 20, from: [20], serialize: (value: number) => String(value), parse: safeInteger },
      timestamp: options.dates ? DATES : TEXTS_OF_TIMES,
    },
    onnotice: () => {},
    onclose,
  })
}

/** Opens the pool of a process. In production it warns when the user has more rights than a process needs. */
export function connectConfiguredDatabase(config: Config, application_name: string, log: Log): Sql {
  const sql = connectDatabase(need(config, 'DATABASE_URL'), { max: config.DATABASE_POOL, application_name })
  if (config.NODE_ENV === 'production') void warnOfRights(sql, log)
  return sql
}

/** Ends pools; their running statements have 5 s to finish. */
export async function endAll(...pools: Sql[]): Promise<void> {
  await Promise.all(pools.map((pool) => pool.end({ timeout: 5 })))
}

/**
 * Warns when the connected user can do everything, as the owner of the tables or a superuser: a process needs only
 * the rights of its role. Never rejects.
 */
export async function warnOfRights(sql: Sql, log: { warn: (message: string) => void }): Promise<void> {
  const owned = await sql`
    select from pg_class where oid = to_regclass('jobs') and pg_has_role(relowner, 'member')`.catch(() => [])
  if (owned.length > 0)
    log.warn(
      'this process is connected as an owner of the tables; it should be a user in one of the roles that the migrations make',
    )
}

/**
 * Whether this error is postgres.js 3.4 writing to a closed connection in a callback, where nobody can catch it
 * (porsager/postgres#1154). It is safe to ignore: the pool is replaced and its statements are rejected.
 */
export function isLateWrite(error: unknown): boolean {
  return error instanceof TypeError && /nextWrite .*postgres.*connection\.js/.test(error.stack ?? '')
}

/**
 * Whether this error is node-postgres telling of a lost connection while nobody listens: BullMQ listens to a client only after
 * it is connected, and not while one of its pool is in use. It is safe to ignore: what is asked of such a client next
 * is rejected.
 */
export function isUnheardLoss(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // What the socket says by itself is passed on as it is, and names no file of the driver.
  const of_socket = 'syscall' in error && error.syscall === 'read'
  if (!of_socket && !/[\\/]node_modules[\\/]pg(-protocol)?[\\/]/.test(error.stack ?? '')) return false
  return error.message === 'Connection terminated unexpectedly' || isUnavailable(error)
}

/** The text of an array as PostgreSQL reads it. */
function arrayLiteral(values: string[]): string {
  return `{${values.map((value) => `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(',')}}`
}

function elementsOf(literal: string): string[] {
  return Array.from(
    literal.matchAll(/"((?:[^"\\]|\\.)*)"|([^,{}"]+)/g),
    ([, quoted, plain]) => plain ?? quoted!.replaceAll(/\\(.)/g, '$1'),
  )
}

function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new Error(`an integer left the safe range: ${text}`)
  return value
}
