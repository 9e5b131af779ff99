// The database client converts values unchanged, keeps slow connections, and replaces old connections.
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
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

test('a statement that fails after its first rows does not affect the rows of the next statement', async () => {
  const pool = connectDatabase(database.url, { max: 1, application_name: 'test' })
  try {
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

test('a connection is replaced after many statements, and no statement is lost', async () => {
  const pool = connectDatabase(database.url, { max: 2, application_name: 'test', max_uses: 50 })
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
})
