// Tests that each fault of postgres.js that `core/postgres` works around exists in the bare driver. If a test fails
// after an update, the driver was fixed: delete the fault's file, its patch and its entry here.
import { cp, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createDatabase } from '#test/databases.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { until } from '#test/process.ts'
import { startProxy } from '#test/proxy.ts'

type Options = NonNullable<Parameters<typeof postgres>[1]>
/** The driver as it is installed, or a patched copy. */
type Driver = { open: (url: string, options?: Options) => postgres.Sql }
/** `name`: the name of the fault's source file in `core/postgres` and of the patch for it. */
type Fault = {
  name: string
  title: string
  has_patch?: false
  /** True if the driver has the fault. */
  isPresent: (driver: Driver, url: string) => Promise<boolean>
}

const APPLICATION = 'driver'
const INSTALLED = join(dirname(createRequire(import.meta.url).resolve('postgres')), '../../src')
const PATCHES = new URL('../src/core/postgres/upstream/', import.meta.url)
/** A statement counts as unanswered if it has no response after this time. */
const MAX_RESPONSE_MS = 2_500

const FAULTS: Fault[] = [
  {
    name: 'late-writes',
    title: 'a write to a connection that has closed ends the process',
    async isPresent({ open }, url) {
      const sql = open(url)
      await sql`select 1`
      const reserved = await sql.reserve()
      await terminate(open, url, reserved)
      return (
        (await captureUncaught('uncaughtException', () => reserved`select 1`.catch(() => {}))) instanceof
        TypeError
      )
    },
  },
  {
    name: 'row-holes',
    title: 'the result after a statement that fails after some rows begins with empty array elements',
    async isPresent({ open }, url) {
      const sql = open(url)
      const failing = sql`select 1 / (3 - n) from generate_series(1, 5) n`.catch(codeOf)
      const next = sql`select n from generate_series(1, 3) n`
      expect(await failing).toBe('22012')
      return !(0 in (await next))
    },
  },
  {
    name: 'lost-connections',
    title: 'a pool that ends while it connects loses the connection',
    async isPresent({ open }, url) {
      const proxy = await startProxy(url)
      onTestFinished(() => proxy.close())
      const sql = open(proxy.url, { backoff: () => 0.3 })
      await sql`select 1`
      proxy.cut()
      await sleep(100)
      const waiting = sql`select 1`.catch(codeOf)
      await sql.end({ timeout: 0 })
      expect(await waiting).toBe('CONNECTION_DESTROYED')
      await sleep(600)
      const [row] = await open(url)<{ count: number }[]>`
        select count(*)::integer from pg_stat_activity where application_name = ${APPLICATION}
          and datname = current_database() and pid <> pg_backend_pid()`
      return row!.count > 0
    },
  },
  {
    name: 'array-types',
    title: 'types that cannot be fetched end the process',
    async isPresent({ open }, url) {
      const proxy = await startProxy(url)
      onTestFinished(() => proxy.close())
      proxy.swallow('typcategory')
      const sql = open(proxy.url, { fetch_types: true })
      const query = sql`select 1`.catch(codeOf)
      await sleep(300)
      const rejection = await captureUncaught('unhandledRejection', () => sql.end({ timeout: 0 }))
      expect(await query).toBe('CONNECTION_DESTROYED')
      return rejection !== undefined
    },
  },
  {
    name: 'reserve',
    title: 'a reservation of a new connection never resolves',
    async isPresent({ open }, url) {
      return await isUnanswered(open(url).reserve())
    },
  },
  {
    name: 'last-errors',
    title: 'the error with which a server ends a connection is lost',
    async isPresent({ open }, url) {
      const sql = open(url)
      const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
      const running = sql`select pg_sleep(60)`.catch(codeOf)
      await until('the statement runs', async () => {
        const [found] = await open(url)`select pg_terminate_backend(pid) from pg_stat_activity
          where pid = ${row!.pid} and state = 'active' and query like '%pg_sleep%'`
        return found !== undefined
      })
      return (await running) !== '57P01'
    },
  },
  {
    name: 'servers',
    title: 'with several hosts, statements never fail while no host answers',
    has_patch: false,
    async isPresent({ open }) {
      const url = `postgres://nobody@127.0.0.1:1,127.0.0.1:2/none`
      return await isUnanswered(open(url, { connect_timeout: 1 })`select 1`)
    },
  },
  {
    name: 'silence',
    title: 'a connection without traffic is never closed',
    has_patch: false,
    async isPresent({ open }, url) {
      const proxy = await startProxy(url)
      onTestFinished(() => proxy.close())
      // All timeouts of the driver are set.
      const sql = open(proxy.url, { connect_timeout: 1, idle_timeout: 1, max_lifetime: 1, keep_alive: 1 })
      await sql`select 1`
      proxy.freeze()
      return await isUnanswered(sql`select 2`)
    },
  },
]

let database: Awaited<ReturnType<typeof createDatabase>>
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(async () => {
  await database?.drop()
})

describe.each(FAULTS)('postgres.js: $title', ({ name, has_patch = true, isPresent }) => {
  test('the driver as installed has the fault', async () => {
    expect(await isPresent(await loadDriver(INSTALLED), database.url)).toBe(true)
  })

  if (!has_patch) return
  test('a copy of the driver with the patch does not have the fault', async () => {
    const copy = await createTemporaryFolder('driver')
    onTestFinished(() => copy.remove())
    await cp(INSTALLED, join(copy.path, 'src'), { recursive: true })
    await writeFile(join(copy.path, 'package.json'), '{ "type": "module" }')
    await applyPatch(copy.path, await readFile(new URL(`${name}.patch`, PATCHES), 'utf8'))
    expect(await isPresent(await loadDriver(join(copy.path, 'src')), database.url)).toBe(false)
  })
})

async function loadDriver(folder: string): Promise<Driver> {
  const { default: driver } = (await import(join(folder, 'index.js'))) as { default: typeof postgres }
  return {
    open(url, options = {}) {
      const connection = { application_name: APPLICATION }
      const sql = driver(url, { max: 1, fetch_types: false, onnotice: () => {}, connection, ...options })
      onTestFinished(() => sql.end({ timeout: 0 }))
      return sql
    },
  }
}

/** Applies a unified diff of one file. Each hunk is found by its old lines. */
async function applyPatch(folder: string, patch: string): Promise<void> {
  const file = join(folder, /^\+\+\+ b\/(.+)$/m.exec(patch)![1]!)
  let text = await readFile(file, 'utf8')
  for (const hunk of patch.split(/^@@.*@@.*\n/m).slice(1)) {
    const lines = hunk.trimEnd().split('\n')
    const linesOf = (kinds: string) =>
      lines.filter((line) => kinds.includes(line[0] ?? ' ')).map((line) => `${line.slice(1)}\n`)
    const old = linesOf(' -').join('')
    expect(text.split(old)).toHaveLength(2)
    text = text.replace(old, () => linesOf(' +').join(''))
  }
  await writeFile(file, text)
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : error
}

async function isUnanswered(answer: PromiseLike<unknown>): Promise<boolean> {
  const answered = Promise.resolve(answer).then(
    () => true,
    () => true,
  )
  return !(await Promise.race([answered, sleep(MAX_RESPONSE_MS, false)]))
}

/** Ends a connection on the server and waits until the driver has noticed. */
async function terminate(open: Driver['open'], url: string, sql: postgres.Sql): Promise<void> {
  const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  await open(url)`select pg_terminate_backend(${row!.pid})`
  await sleep(200)
}

/** The first uncaught error during `work` and the 200 ms after it. */
async function captureUncaught(
  event: 'uncaughtException' | 'unhandledRejection',
  work: () => Promise<unknown>,
): Promise<unknown> {
  const listeners = process.listeners(event)
  const errors: unknown[] = []
  process.removeAllListeners(event)
  process.on(event, (error: unknown) => errors.push(error))
  try {
    // `work` is not awaited: a statement on a closed connection never resolves.
    void work()
    await sleep(200)
  } finally {
    process.removeAllListeners(event)
    for (const listener of listeners) process.on(event, listener)
  }
  return errors[0]
}
