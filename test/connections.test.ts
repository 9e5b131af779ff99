// Which connection of a pool gets a statement, and what happens to statements that wait for one.
import { setImmediate } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import type { Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { createConnections, type PooledConnections } from '#core/postgres/connections.ts'
import { openDriver } from '#core/postgres/driver.ts'
import { createTarget } from '#core/postgres/servers.ts'
import { freePort } from '#start/ports.ts'
import { createDatabase } from '#test/databases.ts'

let database: Awaited<ReturnType<typeof createDatabase>>
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(async () => {
  await database?.drop()
})

function openPool(max: number, url = database.url): Sql {
  const sql = connectDatabase(url, { max, application_name: 'test' })
  onTestFinished(() => sql.end({ timeout: 0 }))
  return sql
}

const pidOf = async (sql: Sql): Promise<number> =>
  (await sql<[{ pid: number }]>`select pg_backend_pid() as pid`)[0].pid

/** Holds `count` connections until the returned function is called; resolves when their transactions have begun. */
async function holdConnections(sql: Sql, count: number): Promise<() => Promise<void>> {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const begun = Array.from({ length: count }, () => Promise.withResolvers<void>())
  const held = Promise.all(
    begun.map(({ resolve }) =>
      sql.begin(async (tx) => {
        await tx`select 1`
        resolve()
        await released
      }),
    ),
  )
  await Promise.all(begun.map(({ promise }) => promise))
  return async () => {
    release()
    await held
  }
}

test('the first free connection gets the next statement, so that the others are seldom used', async () => {
  const sql = openPool(4)
  const first = await pidOf(sql)
  const release = await holdConnections(sql, 3)
  const last = await pidOf(sql)
  expect(last).not.toBe(first)
  await release()
  for (let n = 0; n < 5; n++) expect(await pidOf(sql)).toBe(first)
})

test('a connection that was not used for two minutes closes, unless it is the only one', async () => {
  const target = createTarget(database.url)
  const ended: Promise<void>[] = []
  const connections: PooledConnections = createConnections({
    max: 3,
    shares: true,
    open: (onclose) => openDriver(target, { max: 1, application_name: 'test' }, onclose),
    close: (driver) => void ended.push(driver.end({ timeout: 1 })),
  })
  const ping = (driver: Sql) => driver`select 1`
  const begin = () => connections.begin((tx: Sql) => tx`select 1`)
  await Promise.all([begin(), begin(), begin()])
  connections.checkFree(ping)
  expect(connections.count()).toEqual({ open: 3, busy: 3 })
  await vi.waitFor(() => expect(connections.count()).toEqual({ open: 3, busy: 0 }))
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 121_000)
  connections.checkFree(ping)
  clock.mockRestore()
  expect(connections.count()).toEqual({ open: 1, busy: 1 })
  await connections.end(Infinity)
  await Promise.all(ended)
})

test('a connection that the server ends is not used again, and the others remain', async () => {
  const sql = openPool(2)
  const release = await holdConnections(sql, 1)
  const second = await pidOf(sql)
  await release()
  const first = await pidOf(sql)
  await openPool(1)`select pg_terminate_backend(${first})`
  await vi.waitFor(async () => expect(await pidOf(sql)).toBe(second))
})

test('statements that wait for a connection fail at once if the server cannot be reached', async () => {
  const sql = openPool(2, `postgres://nobody@127.0.0.1:${await freePort('127.0.0.1')}/none`)
  const codes = await Promise.all(
    Array.from({ length: 20 }, () => sql`select 1`.catch((error: { code: unknown }) => error.code)),
  )
  expect(codes).toEqual(Array(20).fill('ECONNREFUSED'))
})

test('a pool that ends answers what waits for a connection, and refuses what comes later', async () => {
  const sql = openPool(1)
  const running = sql<[{ n: number }]>`select 1 as n from pg_sleep(0.2)`.then(([row]) => row.n)
  const waiting = sql<[{ n: number }]>`select 2 as n`.then(([row]) => row.n)
  await Promise.resolve()
  const ended = sql.end()
  await expect(sql`select 3`).rejects.toMatchObject({ code: 'CONNECTION_ENDED' })
  expect(await Promise.all([running, waiting])).toEqual([1, 2])
  await ended
})

test('a pool that ends in time rejects what still waits', async () => {
  const sql = openPool(1)
  const running = sql`select pg_sleep(60)`.catch((error: { code: unknown }) => error.code)
  const waiting = sql`select 2`.catch((error: { code: unknown }) => error.code)
  await Promise.resolve()
  await sql.end({ timeout: 0 })
  expect(await Promise.all([running, waiting])).toEqual(['CONNECTION_DESTROYED', 'CONNECTION_DESTROYED'])
})

/** A driver whose statements and transactions are answered by the test, in the order of `sent`. */
function createFakeDriver() {
  const sent: { name: string; answer: () => void }[] = []
  const send = (name: string, { promise, resolve } = Promise.withResolvers<void>()) => {
    sent.push({ name, answer: resolve })
    return promise
  }
  const begin = (name: string) => send(name)
  const driver = Object.assign(() => ({ handler: (statement: { start(): void }) => statement.start() }), {
    begin,
  })
  const statement = (name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const start = () => void send(name).then(resolve)
    return Object.assign(promise, { cancelled: null, reject, start })
  }
  return {
    driver: driver as unknown as Sql,
    statement,
    /** Answers everything that was sent, and returns the names. */
    answer: async (): Promise<string[]> => {
      const answered = sent.splice(0)
      for (const { answer } of answered) answer()
      await setImmediate()
      return answered.map(({ name }) => name)
    },
  }
}

test.each([
  ['is sent behind others', true, [['first'], ['second', 'third'], ['transaction'], ['last']]],
  ['waits', false, [['first'], ['second'], ['third'], ['transaction'], ['last']]],
])(
  'while all connections are busy, a statement %s, and a transaction waits in its turn',
  async (_, shares, expected) => {
    const { driver, statement, answer } = createFakeDriver()
    const connections = createConnections({ max: 1, shares, open: () => driver, close: () => {} })
    // Nothing is sent behind a statement that opens the connection.
    for (const name of ['first', 'second', 'third']) connections.send(statement(name))
    void connections.begin('transaction')
    connections.send(statement('last'))
    const answered: string[][] = []
    for (const _step of expected) answered.push(await answer())
    expect(answered).toEqual(expected)
  },
)
