// Sluice behind PgBouncer in transaction mode, where each transaction may use another session.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { databaseCode, databaseError, isUnavailable, type Sql, type Tx } from '#core/db.ts'
import { migrate } from '#core/migrate.ts'
import { freePort } from '#start/ports.ts'
import { runCommand } from '#test/commands.ts'
import { createDatabase } from '#test/databases.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { expectNothingLost, pay, type CapturedPayment } from '#test/load.ts'
import { startPgBouncer, type PgBouncer } from '#test/pgbouncer.ts'
import { passwordsOf, urlAs } from '#test/users.ts'

const PAYMENTS = 200
const CLIENTS = 20
const API = 'src/api/main.ts'

let deployment: Deployment
let pooler: PgBouncer
let pooled: { DATABASE_URL: string }

beforeAll(async () => {
  deployment = await createDeployment({ queue: 'redis', webhooks: true })
  pooler = await startPgBouncer(deployment.env['DATABASE_URL']!, passwordsOf(deployment.env['DATABASE_URL']!))
  pooled = { DATABASE_URL: pooler.through(deployment.env['DATABASE_URL']!) }
})
afterAll(async () => {
  await deployment?.close()
  await pooler?.close()
})

test('a process refuses to start behind PgBouncer until `migrate` has written the settings of its user', async () => {
  const env = { ...deployment.env, DATABASE_URL: urlAs('api', pooled.DATABASE_URL) }
  const { code, stderr } = await runCommand(API, [], env)
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(
      /^DATABASE_URL: behind PgBouncer the user "sluice_test_api" needs its settings in the database "sluice_test_\w+", and these are missing: .*enable_seqscan.*\. Run npm run migrate as a user that may alter "sluice_test_api", then RECONNECT in PgBouncer's console\.\n$/,
    ),
  ])
})

test(
  `${PAYMENTS} of ${PAYMENTS} payments are created and captured behind PgBouncer, which is killed and restarted`,
  { timeout: 240_000 },
  async () => {
    const { sql } = deployment
    expect(await migrate(pooled.DATABASE_URL)).toEqual([])
    const settings = await sql<{ role: string }[]>`
      select distinct setrole::regrole::text as role from pg_db_role_setting, unnest(setconfig) setting
      where setdatabase = (select oid from pg_database where datname = current_database())
        and setting = 'enable_seqscan=off' and setrole::regrole::text like 'sluice_test_%' order by 1`
    expect(settings.map(({ role }) => role)).toEqual(
      ['api', 'dashboard', 'webhooks', 'worker'].map((name) => `sluice_test_${name}`),
    )
    await reconnect()
    await Promise.all([
      deployment.startApi(pooled),
      deployment.startWorker(pooled),
      deployment.startWorker(pooled),
    ])
    const paid: CapturedPayment[] = []
    let requested = 0
    const restarts = [PAYMENTS / 4, PAYMENTS / 2]
    const payNext = async () => {
      while (requested < PAYMENTS) {
        requested += 1
        if (restarts.includes(requested)) await pooler.kill().then(() => pooler.start())
        paid.push(await pay(deployment.client))
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, payNext))
    expect(paid).toHaveLength(PAYMENTS)
    await expectNothingLost(deployment, paid)
    const statuses = new Set(paid.flatMap(({ answers }) => answers))
    expect([...statuses].filter((status) => ![200, 201, 202, 503].includes(status))).toEqual([])
    expect(deployment.output()).not.toMatch(/prepared statement|the handler of a job threw/)
    const [direct] = await sql<{ count: number }[]>`
      select count(*)::integer as count from pg_stat_activity
      where usename in ('sluice_test_api', 'sluice_test_worker') and datname = current_database()`
    // One pool of six connections for each user.
    expect(direct!.count).toBeLessThanOrEqual(12)
  },
)

test('`migrate` refuses new migrations behind PgBouncer, and names the remedy', async () => {
  const database = await createDatabase(deployment.env['DATABASE_URL'], { empty: true })
  onTestFinished(database.drop)
  const { code, stderr } = await runCommand('src/commands/migrate.ts', [], {
    DATABASE_URL: pooler.through(database.url),
  })
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(
      /^DATABASE_URL: PgBouncer shares sessions, and the new migrations \(0001_tenants\.sql and \d+ more\) need one of their own\. Name the address of PostgreSQL itself, without pgbouncer=true\.\n$/,
    ),
  ])
})

test('a reader behind PgBouncer sees the tenant of `set local`, and nothing after that transaction', async () => {
  const url = urlAs('reader', pooled.DATABASE_URL)
  const { tenant_id } = deployment
  const [first, second] = [0, 1].map(() => {
    const sql = connectDatabase(url, { max: 1, application_name: 'test' })
    onTestFinished(() => sql.end({ timeout: 1 }))
    return sql
  }) as [Sql, Sql]
  const count = async (sql: Sql | Tx) => (await sql`select from tenants`).length
  const inTransaction = await first.begin(async (tx) => {
    await tx.unsafe(`set local sluice.tenant_id = '${tenant_id}'`)
    return await count(tx)
  })
  expect([inTransaction, await count(first), await count(second)]).toEqual([1, 0, 0])
})

test('statements with and without parameters share a connection behind PgBouncer, and each gets its answer', async () => {
  const sql = connectDatabase(urlAs('api', pooled.DATABASE_URL), { max: 1, application_name: 'test' })
  onTestFinished(() => sql.end({ timeout: 1 }))
  await sql`select 1`
  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => [
      await Promise.all([sql`select pg_sleep(0.01), 'none' as answer`, sql`select ${n}::integer as answer`]),
      await Promise.all([sql`select ${n}::integer as answer`, sql`select pg_sleep(0.01), 'none' as answer`]),
      await Promise.all([
        sql.unsafe("select pg_sleep(0.01), 'none' as answer"),
        sql.unsafe('select $1::integer as answer', [n]),
      ]),
      await sql.begin(async (tx) => [
        await tx`select ${n}::integer as answer`,
        await tx`select 'none' as answer`,
      ]),
    ]),
  )
  expect(answers.flat(3).map(({ answer }) => answer)).toEqual(
    answers.flatMap((_, n) => ['none', n, n, 'none', 'none', n, n, 'none']),
  )
})

test('a statement that is too slow for its pool is canceled behind PgBouncer', async () => {
  const sql = connectDatabase(urlAs('api', pooled.DATABASE_URL), {
    max: 1,
    application_name: 'test',
    statement_timeout_ms: 200,
  })
  onTestFinished(() => sql.end({ timeout: 1 }))
  const error: unknown = await sql`select pg_sleep(60)`.catch((cause: unknown) => cause)
  expect(databaseCode(error)).toBe('57014')
  expect(await sql`select 1 as one`).toEqual([{ one: 1 }])
})

test('a transaction of many short statements behind PgBouncer ends at the limit of its user', async () => {
  const { sql, env } = deployment
  const { pathname } = new URL(env['DATABASE_URL']!)
  const settings = `alter role sluice_test_reader in database ${pathname.slice(1)}`
  await sql.unsafe(`${settings} set transaction_timeout = '100ms'`)
  onTestFinished(async () => void (await sql.unsafe(`${settings} reset transaction_timeout`)))
  // Its sessions begin with the new setting.
  const own = await startPgBouncer(env['DATABASE_URL']!, passwordsOf(env['DATABASE_URL']!))
  onTestFinished(() => own.close())
  const reader = connectDatabase(urlAs('reader', own.through(env['DATABASE_URL']!)), {
    max: 1,
    application_name: 'test',
  })
  onTestFinished(() => reader.end({ timeout: 1 }))
  const error: unknown = await reader
    .begin(async (tx) => {
      for (;;) await tx`select pg_sleep(0.01)`
    })
    .catch((cause: unknown) => cause)
  // PgBouncer passes the error on only if a statement is running.
  expect(isUnavailable(error)).toBe(true)
  await expect.poll(() => reader`select 1 as one`.catch(() => [])).toEqual([{ one: 1 }])
})

test('without pgbouncer=true, the error names the parameter', async () => {
  const url = new URL(pooled.DATABASE_URL)
  url.searchParams.delete('pgbouncer')
  const { stderr } = await runCommand('src/commands/keys.ts', ['list', '--tenant', 'acme'], {
    DATABASE_URL: url.href,
  })
  expect(stderr).toMatch(
    /^DATABASE_URL: the PostgreSQL at .+ refuses the connection: unsupported startup parameter: \w+ \(08P01\)\. This is PgBouncer: add pgbouncer=true to the address\.\n$/,
  )
})

test("PgBouncer's own errors are reported in its words, with a remedy", async () => {
  const port = await freePort('127.0.0.1')
  const users = passwordsOf(deployment.env['DATABASE_URL']!)
  const unreachable = await startPgBouncer(`postgres://127.0.0.1:${port}/none`, users, {
    query_wait_timeout: '2',
  })
  onTestFinished(() => unreachable.close())
  const full = await startPgBouncer(deployment.env['DATABASE_URL']!, users, {
    query_wait_timeout: '1',
    default_pool_size: '1',
  })
  onTestFinished(() => full.close())
  const blocker = connectDatabase(urlAs('api', full.through(deployment.env['DATABASE_URL']!)), {
    max: 1,
    application_name: 'test',
  })
  onTestFinished(() => blocker.end({ timeout: 1 }))
  const blocked = blocker`select pg_sleep(20)`.catch(() => {})
  const refusals: [url: string, refusal: RegExp][] = [
    [
      unreachable.through(deployment.env['DATABASE_URL']!),
      /refuses the connection: (pgbouncer cannot connect to server|query_wait_timeout|server login has been failing).* PgBouncer (does not reach PostgreSQL|had no free connection)/,
    ],
    [
      full.through(deployment.env['DATABASE_URL']!),
      /refuses the connection: query_wait_timeout \(\w+\)\. PgBouncer had no free connection: raise default_pool_size there, or lower DATABASE_POOL here\./,
    ],
    [Object.assign(new URL(pooled.DATABASE_URL), { pathname: '/sluice_nowhere' }).href, /sluice_nowhere/],
  ]
  for (const [base, refusal] of refusals) {
    const url = urlAs('api', base)
    const sql = connectDatabase(url, { max: 1, application_name: 'test' })
    onTestFinished(() => sql.end({ timeout: 1 }))
    const error: unknown = await sql`select 1`.catch((cause: unknown) => cause)
    const text = String(databaseError(error, url))
    expect(text).toMatch(refusal)
    expect(text).not.toContain('no PostgreSQL answers')
  }
  await full.close()
  await blocked
})

test('with QUEUE=postgres a process behind PgBouncer needs QUEUE_DATABASE_URL', async () => {
  const env = { ...deployment.env, QUEUE: 'postgres', DATABASE_URL: urlAs('api', pooled.DATABASE_URL) }
  const refused = await runCommand(API, [], env)
  expect([refused.code, refused.stderr]).toEqual([
    1,
    'QUEUE: BullMQ on PostgreSQL listens in sessions of its own, and PgBouncer shares sessions. Set QUEUE_DATABASE_URL to the address of the same database without PgBouncer, or QUEUE=redis.\n',
  ])
  const pooled_too = await runCommand(API, [], { ...env, QUEUE_DATABASE_URL: env.DATABASE_URL })
  expect([pooled_too.code, pooled_too.stderr]).toEqual([
    1,
    expect.stringMatching(/^QUEUE_DATABASE_URL: .+\n$/),
  ])

  const other = await createDeployment({ queue: 'postgres' })
  onTestFinished(() => other.close())
  const direct = other.env['DATABASE_URL']!
  await migrate(direct)
  const DATABASE_URL = pooler.through(direct)
  await other.startApi({ DATABASE_URL, QUEUE_DATABASE_URL: urlAs('api', direct) })
  await other.startWorker({ DATABASE_URL, QUEUE_DATABASE_URL: urlAs('worker', direct) })
  await expectNothingLost(other, [await pay(other.client)])
})

/** Closes PgBouncer's sessions, so that the next ones have new settings. */
async function reconnect(): Promise<void> {
  await pooler.kill()
  await pooler.start()
}
