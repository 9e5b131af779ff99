// The database client converts values unchanged, keeps slow connections, and replaces old connections.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { giveUpRunning, isSilent } from '#core/postgres/silence.ts'
import { createTraffic } from '#core/postgres/traffic.ts'
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

test('statements that wait behind long statements are not silent, and a statement without an answer is', () => {
  const traffic = createTraffic()
  const checkFor = (seconds: number) => Array.from({ length: seconds }, () => isSilent(traffic))
  const waiting = Array.from({ length: 4 }, (_, nth) =>
    Object.assign(Promise.resolve(), { active: nth === 0 }),
  )
  for (const query of waiting) traffic.pending.set(query, { limit_ms: 15_000, checks: 0, is_given_up: false })
  for (const [nth, query] of waiting.entries()) {
    expect(checkFor(14)).not.toContain(true)
    // The statement is answered, and the next one runs.
    traffic.pending.delete(query)
    traffic.checks_without_answer = 0
    if (waiting[nth + 1] !== undefined) waiting[nth + 1]!.active = true
  }
  traffic.pending.set(waiting[0]!, { limit_ms: 8_000, checks: 0, is_given_up: false })
  expect(checkFor(8)).toEqual([...Array(7).fill(false), true])
  giveUpRunning(traffic)
  expect(checkFor(20)).not.toContain(true)
})

test('a statement that fails after its first rows does not affect the rows of the next statement', async () => {
  const pool = connectDatabase(database.url, { max: 1, application_name: 'test' })
  try {
    // Both statements are sent before the first statement fails.
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

test('a replaced pool leaves no connection open, even if the server is available again before the next attempt to connect', async () => {
  const { hostname, port } = new URL(database.url)
  const clients = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect({ host: hostname, port: Number(port) })
    clients.add(client)
    client.on('error', () => {}).on('close', () => upstream.destroy())
    upstream.on('error', () => {}).on('close', () => client.destroy())
    client.pipe(upstream).pipe(client)
  })
  const listen = async (at: number) => {
    server.listen(at, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
  const url = new URL(database.url)
  url.port = String(await listen(0))
  onTestFinished(() => {
    server.close()
    for (const client of clients) client.destroy()
  })
  const pool = connectDatabase(url.href, { max: 1, application_name: 'replaced' })
  onTestFinished(() => pool.end({ timeout: 0 }))
  await pool`select 1`
  // More statements than a connection accepts at once: the rest wait until the connection opens again.
  const statements = Array.from({ length: 250 }, () => pool`select 1`.catch(() => {}))
  server.close()
  for (const client of clients) client.destroy()
  // The old pool ends 3.25 s after the loss, before its next connection attempt.
  await sleep(3_000)
  await listen(Number(url.port))
  await Promise.all(statements)
  await sleep(1_000)
  const [current] = await pool<{ pid: number }[]>`select pg_backend_pid() as pid`
  const openPids = async () => {
    const rows = await sql<{ pid: number }[]>`
        select pid from pg_stat_activity where application_name = 'replaced'`
    return rows.map(({ pid }) => pid)
  }
  await expect.poll(openPids, { timeout: 15_000 }).toEqual([current!.pid])
})
