// The connection to Postgres: one pool per process, with types and plans as the rest of the code expects them.
import postgres from 'postgres'
import { need, type Config } from './config.ts'
import type { Log } from './log.ts'
import { isoFromPostgres } from './time.ts'
import type { Sql } from './db.ts'

type PoolOptions = { max: number; application_name: string; statement_timeout_ms?: number }

/** Connections lost within this time are lost to one cause: one new pool is enough. */
const REPLACE_AFTER_MS = 250
/** A connection that is being made while its pool ends is forgotten by postgres.js and stays for ever: so long it may take. */
const CONNECTED_MS = 1_000
/** What an old pool is still granted to finish; what waits in it after that is refused. */
const OLD_POOL_S = 2
/** A connection can go silent without closing: who does not answer a greeting in this time is given up. */
const GREETING_MS = 8_000
/** The server ends each statement before this (`statement_timeout`): what is unanswered then will stay so. */
const SILENT_MS = 15_000
/** How often it is looked. Looks are counted, not time: while this process stood still, answers may have come. */
const LOOK_MS = 1_000
const STATEMENT_MS = 12_000

/**
 * Opens a pool. Connections are made when first needed. Errors: those of postgres.js (`code` is the SQLSTATE or
 * a socket error).
 *
 * When a connection is lost, the whole pool is replaced: in postgres.js 3.4 one that closes while a write is scheduled
 * never writes again, and what is asked on it waits for ever. Likewise when it answers no more. Who holds the pool does
 * not notice.
 */
export function connectDatabase(url: string, options: PoolOptions): Sql {
  let pool = open()
  let load = noLoad()
  let replacing: NodeJS.Timeout | undefined
  let ended = false

  function open(): Sql {
    const opened: Sql = openPool(url, options, () => {
      if (opened === pool && !ended) replacing ??= setTimeout(replace, REPLACE_AFTER_MS)
    })
    return opened
  }
  function replace(): void {
    clearTimeout(replacing)
    replacing = undefined
    if (ended) return
    const old = pool
    pool = open()
    load = noLoad()
    setTimeout(() => void old.end({ timeout: OLD_POOL_S }).catch(() => {}), CONNECTED_MS).unref()
  }
  /** Asks every connection that has nothing to do: what is under way is watched by itself. */
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
    // A query of postgres.js is asked when somebody waits for it.
    // oxlint-disable-next-line unicorn/no-thenable
    query.then = (...given) => {
      counted.under_way.set(query, { patience_ms, looks: 0 })
      counted.peak = Math.max(counted.peak, counted.under_way.size)
      const answered = () => {
        counted.under_way.delete(query)
        counted.quiet = 0
      }
      then(answered, answered)
      return then(...given)
    }
  }
  /** Only who is being worked on can be silent; who waits behind others is when all of them are. */
  function look(): void {
    load.quiet = load.under_way.size === 0 ? 0 : load.quiet + 1
    let silent = load.quiet * LOOK_MS >= SILENT_MS
    for (const [query, one] of load.under_way) {
      if (!isActive(query)) continue
      one.looks += 1
      silent ||= one.looks * LOOK_MS >= one.patience_ms
    }
    if (silent) replace()
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

/** Of one pool. */
type Load = {
  /** Queries that nobody has answered; `looks`: how often each was seen at work. */
  under_way: Map<unknown, { patience_ms: number; looks: number }>
  /** The most there were, which is how many connections it has made. */
  peak: number
  /** Looks since the last answer. */
  quiet: number
}

function noLoad(): Load {
  return { under_way: new Map(), peak: 1, quiet: 0 }
}

/** Whether a query of postgres.js is the one that its connection works on; others wait behind it or for a connection. */
function isActive(query: unknown): boolean {
  return query instanceof Promise && Reflect.get(query, 'active') === true
}

const counts = new WeakMap<Sql, () => number>()

/** How many statements of this pool run or wait. */
export function statementsUnderWay(sql: Sql): number {
  return counts.get(sql)?.() ?? 0
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
      // Every statement here is a keyed look-up or an indexed walk. A plan made while a table was empty is kept with
      // the prepared statement and would scan the table once it is full.
      plan_cache_mode: 'force_generic_plan',
      enable_seqscan: 'off',
      enable_hashjoin: 'off',
      enable_mergejoin: 'off',
      random_page_cost: 0.1,
      seq_page_cost: 0.1,
      jit: 'off',
    },
    // With each connection the driver would look array types up, in a promise that nobody holds: when the connection ends
    // meanwhile, its rejection ends the process. The arrays we use are declared here.
    fetch_types: false,
    types: {
      texts: { to: 1009, from: [1009], serialize: arrayLiteral, parse: elementsOf },
      uuids: { to: 2951, from: [2951], serialize: arrayLiteral, parse: elementsOf },
      bigint: { to: 20, from: [20], serialize: (value: number) => String(value), parse: safeInteger },
      timestamp: { to: 1184, from: [1184], serialize: (value: string) => value, parse: isoFromPostgres },
    },
    onnotice: () => {},
    onclose,
  })
}

/** Opens the pool of a process as it is configured. In production it warns of rights that no process needs. */
export function connectConfiguredDatabase(config: Config, application_name: string, log: Log): Sql {
  const sql = connectDatabase(need(config, 'DATABASE_URL'), { max: config.DATABASE_POOL, application_name })
  if (config.NODE_ENV === 'production') void warnOfRights(sql, log)
  return sql
}

/**
 * Warns when who is connected can do everything, as the owner of the tables or a superuser: a process needs the rights of its
 * role and no more. Never rejects.
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
 * Whether this is postgres.js 3.4 writing to a connection that has closed, in a callback whose error nobody can catch
 * (porsager/postgres#1154). The pool of that connection is replaced, and what was asked on it is refused.
 */
export function isLateWrite(error: unknown): boolean {
  return error instanceof TypeError && /nextWrite .*postgres.*connection\.js/.test(error.stack ?? '')
}

/** As PostgreSQL reads an array of text. */
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
