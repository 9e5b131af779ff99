// Which connection of a pool gets a statement, and what happens to statements that wait for one.
import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { isUnavailable, type Sql, type Tx } from '#core/db.ts'
import { connectDatabase, renewConnections } from '#core/pool.ts'
import { createConnections, type PooledConnections } from '#core/postgres/connections.ts'
import { openDriver } from '#core/postgres/driver.ts'
import { createTarget } from '#core/postgres/servers.ts'
import { giveUpRunning, isSilent } from '#core/postgres/silence.ts'
import { createTraffic } from '#core/postgres/traffic.ts'
import { beginTransaction, limitAnswers } from '#core/postgres/transactions.ts'
import { createDatabase } from '#test/databases.ts'
import { startProxy } from '#test/proxy.ts'

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

test('the first idle connection gets the next statement', async () => {
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
  const connections: PooledConnections = createConnections({
    max: 3,
    shares: true,
    open: (onclose) => openDriver(target, { max: 1, application_name: 'test' }, onclose),
    ping: (driver) => driver`select 1`,
    drain: () => {},
  })
  const begin = () => connections.begin((tx: Sql) => tx`select 1`)
  await Promise.all([begin(), begin(), begin()])
  connections.check(0)
  expect(connections.count()).toEqual({ open: 3, busy: 3 })
  await vi.waitFor(() => expect(connections.count()).toEqual({ open: 3, busy: 0 }))
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 121_000)
  connections.check(0)
  clock.mockRestore()
  expect(connections.count()).toEqual({ open: 1, busy: 1 })
  await connections.end(Infinity)
})

test('a reserved connection is for its caller alone until its release', async () => {
  const sql = openPool(1)
  const reserved = await sql.reserve()
  const answered: string[] = []
  const waiting = sql`select 1`.then(() => answered.push('pool'))
  await reserved`select 1`.then(() => answered.push('reserved'))
  await reserved`select 1`.then(() => answered.push('reserved'))
  reserved.release()
  await waiting
  expect(answered).toEqual(['reserved', 'reserved', 'pool'])
})

test('a transaction that would stay open is refused', async () => {
  const sql = openPool(2)
  expect(() => sql.unsafe('begin')).toThrow('needs `begin`')
  expect(() => sql`start transaction`).toThrow('needs `begin`')
})

test('a connection that the server ends is discarded alone', async () => {
  const sql = openPool(2)
  const release = await holdConnections(sql, 1)
  const second = await pidOf(sql)
  await release()
  const first = await pidOf(sql)
  await openPool(1)`select pg_terminate_backend(${first})`
  await vi.waitFor(async () => expect(await pidOf(sql)).toBe(second))
})

test('statements that wait for a connection fail at once if the server cannot be reached, and the next ones are answered', async () => {
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  proxy.refuse(true)
  const sql = openPool(2, proxy.url)
  const errors = await Promise.all(Array.from({ length: 20 }, () => sql`select 1`.catch(isUnavailable)))
  expect(errors).toEqual(Array(20).fill(true))
  expect(proxy.opened()).toBeLessThanOrEqual(4)
  proxy.refuse(false)
  expect(await pidOf(sql)).toBeGreaterThan(0)
})

test('no connection stays open that was replaced while it opened, or used too often', async () => {
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const options = { max: 1, max_uses: 3, application_name: 'replaced' }
  const sql = connectDatabase(proxy.url, options)
  onTestFinished(() => sql.end({ timeout: 0 }))
  proxy.pause(true)
  const first = sql`select 1`.catch(() => {})
  await vi.waitFor(() => expect(proxy.opened()).toBe(1))
  renewConnections()
  proxy.pause(false)
  await first
  for (let n = 0; n < 7; n++) await sql`select 1`
  const other = openPool(1)
  const count = async () =>
    (await other`select pid from pg_stat_activity where application_name = 'replaced'`).count
  await expect.poll(count).toBeLessThanOrEqual(1)
})

test('a statement that is canceled while its connection opens does not disable the connection', async () => {
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const url = new URL(proxy.url)
  url.searchParams.set('pgbouncer', 'true')
  const sql = connectDatabase(url.href, { max: 1, application_name: 'test', statement_timeout_ms: 200 })
  onTestFinished(() => sql.end({ timeout: 0 }))
  proxy.pause(true)
  await expect(sql`select 1`).rejects.toMatchObject({ code: '57014' })
  proxy.pause(false)
  await vi.waitFor(async () => expect(await pidOf(sql)).toBeGreaterThan(0))
})

test('a pool that ends runs waiting statements and refuses new ones', async () => {
  const sql = openPool(1)
  const running = sql<[{ n: number }]>`select 1 as n from pg_sleep(0.2)`.then(([row]) => row.n)
  const waiting = sql<[{ n: number }]>`select 2 as n`.then(([row]) => row.n)
  await Promise.resolve()
  const ended = sql.end()
  await expect(sql`select 3`).rejects.toMatchObject({ code: 'CONNECTION_ENDED' })
  expect(await Promise.all([running, waiting])).toEqual([1, 2])
  await ended
})

test('a pool that reaches its time limit at the end rejects running and waiting statements', async () => {
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
  const driver = () => ({ handler: (statement: { start(): void }) => statement.start() })
  const statement = (name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const start = () => void send(name).then(resolve)
    return Object.assign(promise, { cancelled: null, reject, start })
  }
  return {
    driver: driver as unknown as Sql,
    statement,
    begin: async (name: string) => await send(name),
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
  ['is sent behind others', true, [['first', 'second', 'third'], ['transaction'], ['last']]],
  ['waits', false, [['first'], ['second'], ['third'], ['transaction'], ['last']]],
])(
  'while all connections are busy, a statement %s, and a transaction waits in its turn',
  async (_name, shares, expected) => {
    const { driver, statement, begin, answer } = createFakeDriver()
    const connections = createConnections({
      max: 1,
      shares,
      open: () => driver,
      ping: () => Promise.resolve(),
      drain: () => {},
    })
    for (const name of ['first', 'second', 'third']) connections.send(statement(name))
    void connections.begin(() => begin('transaction'))
    connections.send(statement('last'))
    expect(await answer()).toEqual([])
    const answered: string[][] = []
    for (const _step of expected) answered.push(await answer())
    expect(answered).toEqual(expected)
  },
)

test('a transaction that waited for a connection runs in the context of its caller', async () => {
  const sql = openPool(1)
  const context = new AsyncLocalStorage<string>()
  const release = await context.run('first', () => holdConnections(sql, 1))
  const seen = context.run('second', () => sql.begin(async () => context.getStore()))
  await release()
  expect(await seen).toBe('second')
})

test('a connection that was used in the last interval is not pinged', async () => {
  const pings: Sql[] = []
  const connections = createConnections({
    max: 5,
    shares: true,
    open: (onclose) => openDriver(createTarget(database.url), { max: 1, application_name: 'test' }, onclose),
    ping: (driver) => {
      pings.push(driver)
      return driver`select 1`
    },
    drain: () => {},
  })
  const begin = () => connections.begin((driver: Sql) => driver`select 1`)
  await Promise.all([begin(), begin()])
  await vi.waitFor(() => expect(connections.count()).toEqual({ open: 2, busy: 0 }))
  const opening = pings.splice(0)
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 9_000)
  onTestFinished(() => clock.mockRestore())
  await begin()
  connections.check(8_000)
  expect(pings).toEqual([opening[1]])
  await connections.end(Infinity)
})

test('a server that has become read-only causes no storm of connections', async () => {
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const url = new URL(proxy.url)
  url.searchParams.set('default_transaction_read_only', 'on')
  const sql = openPool(2, url.href)
  for (let n = 0; n < 30; n++)
    await expect(sql`create table refused ()`).rejects.toMatchObject({ code: '25006' })
  expect(proxy.opened()).toBeLessThan(30)
})

test('a statement that waits for a connection does not count as silent, and a running one without an answer does', () => {
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

/** The points at which the connection of a transaction freezes, with the limit of the answer in seconds. */
const FREEZES: [at: string, limit_s: number, work: (tx: Tx, freeze: () => void) => Promise<void>][] = [
  [
    'at a statement',
    15,
    async (tx, freeze) => {
      await tx`select 1`
      freeze()
      await tx`select 2`
    },
  ],
  [
    'at a statement of a savepoint',
    15,
    async (tx, freeze) => {
      await tx.savepoint(async (part) => {
        freeze()
        await part.unsafe('select 1')
      })
    },
  ],
  [
    'at a statement that may take longer',
    30,
    async (tx, freeze) => {
      limitAnswers(tx, 30_000)
      freeze()
      await tx`select 1`
    },
  ],
  ['at its end', 15, async (_tx, freeze) => freeze()],
]

test.each(FREEZES)(
  'a transaction whose connection freezes %s is silent after %i s',
  async (_at, limit_s, work) => {
    const proxy = await startProxy(database.url)
    onTestFinished(() => proxy.close())
    const driver = openDriver(createTarget(proxy.url), { max: 1, application_name: 'test' }, () => {})
    const traffic = createTraffic()
    const { promise: frozen, resolve } = Promise.withResolvers<void>()
    const freeze = () => {
      proxy.freeze()
      resolve()
    }
    const open = traffic.transactions
    const ended = beginTransaction(driver, [async (tx: Tx) => await work(tx, freeze)], {
      open,
      limit_ms: 15_000,
    })
    await frozen
    await setImmediate()
    const silent = Array.from({ length: limit_s }, () => isSilent(traffic))
    expect(silent).toEqual([...Array(limit_s - 1).fill(false), true])
    await driver.end({ timeout: 0 })
    await expect(ended).rejects.toMatchObject({ code: expect.stringMatching(/^CONNECTION_/) })
    expect(open.size).toBe(0)
  },
)

test('a transaction whose work does something else is not silent', async () => {
  const driver = openDriver(createTarget(database.url), { max: 1, application_name: 'test' }, () => {})
  onTestFinished(() => driver.end())
  const traffic = createTraffic()
  const work = async (tx: Tx) => {
    await tx`select 1`
    return Array.from({ length: 60 }, () => isSilent(traffic))
  }
  const checks = await beginTransaction(driver, [work], { open: traffic.transactions, limit_ms: 15_000 })
  expect(checks).not.toContain(true)
})

test('a connection whose opening is not answered says nothing about the others, and is given up', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { driver, statement, answer } = createFakeDriver()
  const pings: boolean[] = []
  const never = Promise.withResolvers<void>().promise
  const connections = createConnections({
    max: 2,
    shares: true,
    open: () => driver,
    ping: (_driver, opens) => {
      pings.push(opens)
      return pings.length === 1 ? Promise.resolve() : never
    },
    drain: () => {},
  })
  connections.send(statement('first'))
  await setImmediate()
  connections.send(statement('second'))
  expect(connections.count()).toEqual({ open: 2, busy: 2 })
  vi.advanceTimersByTime(20_000)
  expect(connections.count()).toEqual({ open: 1, busy: 1 })
  expect([await answer(), await answer()]).toEqual([['first'], ['second']])
  vi.advanceTimersByTime(8_000)
  connections.check(8_000)
  expect(pings).toEqual([true, true, false])
})

test('a statement that has waited for too long fails when the connections are replaced', async () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
  onTestFinished(() => clock.mockRestore())
  const { driver, statement } = createFakeDriver()
  const never = Promise.withResolvers<void>().promise
  const connections = createConnections({
    max: 1,
    shares: true,
    open: () => driver,
    ping: () => never,
    drain: () => {},
  })
  const failed: string[] = []
  const send = (name: string) => {
    const sent = statement(name)
    void sent.catch(({ code }: { code: string }) => failed.push(`${name} ${code}`))
    connections.send(sent)
  }
  send('first')
  clock.mockReturnValue(8_000)
  connections.replace(15_000)
  send('second')
  clock.mockReturnValue(16_000)
  connections.replace(15_000)
  await setImmediate()
  expect(failed).toEqual(['first CONNECT_TIMEOUT'])
})
