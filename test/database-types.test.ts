// The connection to PostgreSQL converts values unchanged, keeps slow connections, and replaces used ones.
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { createDatabase } from '#test/databases.ts'

let database: Awaited<ReturnType<typeof createDatabase>>
let sql: Sql
beforeAll(async () => {
  database = await createDatabase()
  sql = connectDatabase(database.url, { max: 1, application_name: 'test' })
})
afterAll(async () => {
  await sql?.end()
  await database?.drop()
})

test('arrays of any texts are returned unchanged', async () => {
  const text = fc
    .oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', 'NULL', '"', '\\', '{a,b}', ' '))
    .filter((value) => !value.includes('\0') && value.isWellFormed())
  await fc.assert(
    fc.asyncProperty(fc.array(text), async (values) => {
      const [row] = await sql<{ echo: string[]; texts: string }[]>`
        select echo, array_to_json(echo)::text as texts from (select ${values}::text[] as echo) input`
      expect(row!.echo).toEqual(values)
      expect(JSON.parse(row!.texts)).toEqual(values)
    }),
    { numRuns: 200 },
  )
})

test('arrays of ids are returned unchanged', async () => {
  const ids = [newId(), newId()]
  const [row] = await sql<{ echo: string[]; first: string }[]>`
    select echo, echo[1] as first from (select ${ids}::uuid[] as echo) input`
  expect(row).toEqual({ echo: ids, first: ids[0] })
})

test('a pool with statements that wait behind long ones is kept', async () => {
  // The pool counts checks without a response. Fake timers trigger the checks.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const pool = connectDatabase(database.url, { max: 1, application_name: 'test' })
  onTestFinished(() => pool.end())
  const pid = async () => Array.from(await pool<{ pid: number }[]>`select pg_backend_pid() as pid`)
  const first = await pid()
  const sleeps = Array.from({ length: 4 }, async () => await pool`select pg_sleep(0.3)`)
  for (const sleep of sleeps) {
    await vi.advanceTimersByTimeAsync(5_500)
    await sleep
  }
  expect(await pid()).toEqual(first)
})

test('a statement that fails after its first rows does not affect the rows of the next statement', async () => {
  const pool = connectDatabase(database.url, { max: 1, application_name: 'test' })
  try {
    // Both statements are sent before the first fails.
    const failing = pool`select 1 / (3 - n) from generate_series(1, 5) n`
    const next = pool<{ n: number }[]>`select n from generate_series(1, 3) n`
    await expect(failing).rejects.toMatchObject({ code: '22012' })
    expect(Array.from(await next)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    expect(Array.from(await pool`select 1 as n where false`)).toEqual([])
  } finally {
    await pool.end()
  }
})

test('an integer above the safe range of JavaScript is an error', async () => {
  await expect(sql`select 9007199254740993::bigint as amount`).rejects.toThrow('exceeds the safe range')
})

test(
  'a connection pool is replaced after many statements without losing any',
  { timeout: 180_000 },
  async () => {
    const pool = connectDatabase(database.url, { max: 2, application_name: 'test', max_statements: 500 })
    try {
      const long = pool<{ pid: number }[]>`select pg_backend_pid() as pid, pg_sleep(4)`
      const old = long.then(([row]) => row!.pid)
      const pids = new Set<number>()
      while (pids.size < 4) {
        const answers = await Promise.all(
          Array.from({ length: 20 }, () => pool<{ pid: number }[]>`select pg_backend_pid() as pid`),
        )
        for (const [row] of answers) pids.add(row!.pid)
      }
      expect(await old).toBeGreaterThan(0)
    } finally {
      await pool.end()
    }
  },
)
