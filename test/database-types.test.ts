// The connection to Postgres: what our own types make of values.
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

test('arrays of text come back unchanged, whatever is in them', async () => {
  const text = fc
    .oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', 'NULL', '"', '\\', '{a,b}', ' '))
    .filter((value) => !value.includes('\0') && value.isWellFormed())
  await fc.assert(
    fc.asyncProperty(fc.array(text), async (values) => {
      const [row] = await sql<{ echo: string[]; texts: string }[]>`
        select echo, array_to_json(echo)::text as texts from (select ${values}::text[] as echo) asked`
      expect(row!.echo).toEqual(values)
      expect(JSON.parse(row!.texts)).toEqual(values)
    }),
    { numRuns: 200 },
  )
})

test('arrays of ids come back unchanged', async () => {
  const ids = [newId(), newId()]
  const [row] = await sql<{ echo: string[]; first: string }[]>`
    select echo, echo[1] as first from (select ${ids}::uuid[] as echo) asked`
  expect(row).toEqual({ echo: ids, first: ids[0] })
})

test('statements that wait behind long ones do not count as silent: the pool is kept', async () => {
  // Silence is counted in looks, and this test says when they are made.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const pool = connectDatabase(database.url, { max: 1, application_name: 'test' })
  onTestFinished(() => pool.end())
  const pid = async () => Array.from(await pool<{ pid: number }[]>`select pg_backend_pid() as pid`)
  const first = await pid()
  const sleeps = Array.from({ length: 4 }, async () => await pool`select pg_sleep(0.3)`)
  for (const one of sleeps) {
    await vi.advanceTimersByTimeAsync(5_500)
    await one
  }
  expect(await pid()).toEqual(first)
})

test('a statement that fails after its first rows leaves no holes in the answer to the next', async () => {
  const pool = connectDatabase(database.url, { max: 1, application_name: 'test' })
  try {
    // Both are sent before the first has failed.
    const failing = pool`select 1 / (3 - n) from generate_series(1, 5) n`
    const next = pool<{ n: number }[]>`select n from generate_series(1, 3) n`
    await expect(failing).rejects.toMatchObject({ code: '22012' })
    expect(Array.from(await next)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    expect(Array.from(await pool`select 1 as n where false`)).toEqual([])
  } finally {
    await pool.end()
  }
})

test('a whole number beyond what JSON can carry is an error and not another number', async () => {
  await expect(sql`select 9007199254740993::bigint as amount`).rejects.toThrow('exceeds the safe range')
})

test('a pool is replaced after many statements, and loses none', { timeout: 180_000 }, async () => {
  const pool = connectDatabase(database.url, { max: 2, application_name: 'test', max_statements: 500 })
  try {
    const long = pool<{ pid: number }[]>`select pg_backend_pid() as pid, pg_sleep(4)`
    const old = long.then(([row]) => row!.pid)
    const seen = new Set<number>()
    while (seen.size < 4) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => pool<{ pid: number }[]>`select pg_backend_pid() as pid`),
      )
      for (const [row] of answers) seen.add(row!.pid)
    }
    expect(await old).toBeGreaterThan(0)
  } finally {
    await pool.end()
  }
})
