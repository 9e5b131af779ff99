// Migrations run once and in order, each as a step of its own, and stop no work of other sessions.
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { ConfigError } from '#core/config.ts'
import { migrate } from '#core/migrate.ts'
import { runCommand } from '#test/commands.ts'
import { createDatabase } from '#test/databases.ts'
import { waitingForLocks } from '#test/locks.ts'
import { startProcess, type Process } from '#test/process.ts'
import { patchedCopy } from '../torture/copy.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))

let files: string[]
beforeAll(async () => {
  const names = await readdir(new URL('../migrations/', import.meta.url))
  files = names.filter((name) => /^\d{4}_.+\.sql$/.test(name)).toSorted()
})

/** A connection to a new database, which by default has no tables. */
async function connectToNew({ empty = true } = {}): Promise<{ url: string; sql: postgres.Sql }> {
  const { url, drop } = await createDatabase(undefined, { empty })
  onTestFinished(drop)
  return { url, sql: connect(url) }
}

function connect(url: string, application_name = 'test'): postgres.Sql {
  const sql = postgres(url, { max: 1, connection: { application_name }, onnotice: () => {} })
  onTestFinished(() => sql.end({ timeout: 1 }))
  return sql
}

/** A session that has locked these tables, as writers do, and is idle in its transaction. */
async function lockTables(
  url: string,
  tables: string[],
  application_name?: string,
): Promise<postgres.ReservedSql> {
  const session = await connect(url, application_name).reserve()
  await session`begin`
  for (const table of tables) await session.unsafe(`lock table ${table} in row exclusive mode`)
  return session
}

/** A copy of the sources with these migrations in addition. */
async function copyWith(migrations: Record<string, string>): Promise<string> {
  const { path, remove } = await patchedCopy(ROOT, [])
  onTestFinished(remove)
  for (const [name, text] of Object.entries(migrations))
    await writeFile(join(path, 'migrations', name), `${text}\n`)
  return path
}

const runMigrate = async (root: string, url: string, ...args: string[]) =>
  await runCommand(join(root, 'src/commands/migrate.ts'), args, { DATABASE_URL: url, QUEUE: 'redis' }, root)

async function startMigrate(root: string, url: string): Promise<Process> {
  const migration = await startProcess('src/commands/migrate.ts', {
    root,
    env: { DATABASE_URL: url, QUEUE: 'redis' },
  })
  onTestFinished(async () => void (await migration.end()))
  return migration
}

test('two concurrent migration processes apply each migration once', async () => {
  const { url, sql } = await connectToNew()
  const applied = await Promise.all([migrate(url), migrate(url)])
  expect(applied.toSorted((a, b) => b.length - a.length)).toEqual([files, []])
  const recorded = await sql<{ name: string }[]>`select name from schema_migrations order by name`
  expect(recorded.map(({ name }) => name)).toEqual(files)
  expect(await migrate(url)).toEqual([])
})

test('a change of an applied migration is refused, and no migration runs', async () => {
  const { url, sql } = await connectToNew()
  await migrate(url)
  const [changed, missing] = [files.at(0)!, files.at(-1)!]
  await sql`update schema_migrations set checksum = 'another' where name = ${changed}`
  await sql`delete from schema_migrations where name = ${missing}`
  await expect(migrate(url)).rejects.toThrow(
    new ConfigError(
      `The migration ${changed} was changed after it was applied to this database. Restore the file, and make the change in a new migration.`,
    ),
  )
  expect(await sql`select from schema_migrations where name = ${missing}`).toEqual([])
})

test('migrations before one that fails stay applied, and the next run continues', async () => {
  const { url, sql } = await connectToNew({ empty: false })
  const good = { '0801_good.sql': 'create table good (id integer)' }
  const failing = await copyWith({ ...good, '0802_bad.sql': 'create table bad (id integer); select 1 / 0' })
  expect(await runMigrate(failing, url)).toMatchObject({
    code: 1,
    stderr: 'Applied 0801_good.sql. 0802_bad.sql failed: division by zero (22012).\n',
  })
  const tables = () =>
    sql`select to_regclass('good') is not null as good, to_regclass('bad') is not null as bad`
  expect(await tables()).toEqual([{ good: true, bad: false }])
  const mended = await copyWith({ ...good, '0802_bad.sql': 'create table bad (id integer)' })
  expect(await runMigrate(mended, url)).toMatchObject({ code: 0, stdout: 'Applied 0802_bad.sql.\n' })
  const older = await copyWith({})
  expect(await runMigrate(older, url)).toMatchObject({
    code: 0,
    stdout:
      'The database was migrated by a newer version: 0802_bad.sql is not known here.\nThe database is up to date.\n',
  })
})

test('a migration that a forgotten transaction prevents names the session, and lets others work between its tries', async () => {
  const { url, sql } = await connectToNew({ empty: false })
  const root = await copyWith({
    '0801_note.sql': '-- locks: pauses, payments\nalter table payments add column note text',
  })
  const forgotten = await lockTables(url, ['payments'], 'a report')
  const [session] = await forgotten<{ pid: number }[]>`select pg_backend_pid() as pid`
  const migration = await startMigrate(root, url)
  const line = await migration.waitForLine('try 2 of 30')
  expect(line).toMatch(
    new RegExp(
      `^0801_note\\.sql: try 2 of 30, locked by pid ${session!.pid} \\(\\w+, a report, idle in transaction, for \\d+ s\\), on payments\\.`,
    ),
  )
  // Waits at most for one try.
  await sql`select from pauses`
  await forgotten`rollback`
  expect(await migration.ended).toMatchObject({ code: 0 })
  expect(migration.output()).toContain('Applied 0801_note.sql.')
})

test('a migration that does not say which tables it locks names the session too', async () => {
  const { url } = await connectToNew({ empty: false })
  const root = await copyWith({ '0801_note.sql': 'alter table payments add column note text' })
  const forgotten = await lockTables(url, ['payments'], 'a report')
  const migration = await startMigrate(root, url)
  expect(await migration.waitForLine('locked by pid')).toMatch(
    /locked by pid \d+ \(\w+, a report, idle in transaction, for \d+ s\), on payments\./,
  )
  await forgotten`rollback`
  expect(await migration.ended).toMatchObject({ code: 0 })
})

test('a session that locked the tables of a migration in another order is not ended by a deadlock', async () => {
  const { url, sql } = await connectToNew({ empty: false })
  const root = await copyWith({
    '0801_note.sql':
      '-- locks: payments, jobs\nalter table payments add column note text; alter table jobs add column note text',
  })
  const worker = await lockTables(url, ['payments'])
  const migration = await startMigrate(root, url)
  await migration.waitForLine('try 1 of 30')
  // Reads also during the next try, in which the migration has locked `jobs` and polls for `payments`.
  while (!migration.output().includes('try 2 of 30')) await worker`select from jobs`
  await worker`commit`
  expect(await migration.ended).toMatchObject({ code: 0 })
  const [database] =
    await sql`select deadlocks::integer from pg_stat_database where datname = current_database()`
  expect(database).toEqual({ deadlocks: 0 })
})

const INDEX = {
  '0801_note.concurrently.sql':
    '-- locks: payments share update exclusive\ncreate index concurrently payments_note on payments (currency)',
}

test('an index that an interrupted build left invalid is built again', async () => {
  const { url, sql } = await connectToNew({ empty: false })
  const root = await copyWith(INDEX)
  const writer = await lockTables(url, ['payments'])
  const interrupted = await startMigrate(root, url)
  await waitingForLocks(sql as never, 1)
  await interrupted.end()
  await sql`
    select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where application_name = 'sluice-migrate' and datname = current_database()`
  const validity = () => sql`select indisvalid from pg_index where indexrelid = to_regclass('payments_note')`
  expect(await validity()).toEqual([{ indisvalid: false }])
  await writer`rollback`
  expect(await runMigrate(root, url)).toMatchObject({ code: 0 })
  expect(await validity()).toEqual([{ indisvalid: true }])
})

test('an index whose build was completed and not recorded is recorded', async () => {
  const { url, sql } = await connectToNew({ empty: false })
  await sql.unsafe('create index concurrently payments_note on payments (currency)')
  const [built] = await sql`select 'payments_note'::regclass::oid as oid`
  expect(await runMigrate(await copyWith(INDEX), url)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/\nApplied 0801_note\.concurrently\.sql\.\n$/),
  })
  expect(await sql`select 'payments_note'::regclass::oid as oid`).toEqual([built])
})

test('an index of a partitioned table is built on each partition, even if a session writes, and is valid', async () => {
  const { url, sql } = await connectToNew({ empty: false })
  const writer = await lockTables(url, ['job_history_default'])
  const root = await copyWith({
    '0801_note.concurrently.sql':
      "-- locks: job_history share\ncreate index concurrently job_history_note on job_history (name) where state = 'failed'",
  })
  const interrupted = await startMigrate(root, url)
  await interrupted.waitForLine('waits for')
  await interrupted.end()
  await writer`commit`
  expect(await runMigrate(root, url)).toMatchObject({ code: 0 })
  const indexes = await sql`
    select c.relname as name, indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid
    where c.relname like 'job_history_note%' order by relkind = 'I' desc, name`
  expect(indexes).toEqual([
    { name: 'job_history_note', indisvalid: true },
    { name: 'job_history_note_before', indisvalid: true },
    { name: 'job_history_note_default', indisvalid: true },
  ])
})

test('a step outside a transaction waits for a session that writes, names it, and blocks no other session', async () => {
  const { url, sql } = await connectToNew({ empty: false })
  const writer = await lockTables(url, ['payments'], 'a writer')
  const migration = await startMigrate(await copyWith(INDEX), url)
  expect(await migration.waitForLine('waits for')).toMatch(
    /^0801_note\.concurrently\.sql: waits for pid \d+ \(\w+, a writer, /,
  )
  await sql`update payments set currency = 'EUR'`
  await writer`commit`
  expect(await migration.ended).toMatchObject({ code: 0 })
})

test('a run waits until another run has applied its steps', async () => {
  const { url } = await connectToNew({ empty: false })
  const root = await copyWith(INDEX)
  const writer = await lockTables(url, ['payments'])
  const first = await startMigrate(root, url)
  await first.waitForLine('waits for')
  const second = await startMigrate(root, url)
  expect(await second.waitForLine('try 1 of 30')).toMatch(
    /^migration_lock: try 1 of 30, locked by pid \d+ \(\w+, sluice-migrate, (?:active|idle in transaction)/,
  )
  await writer`commit`
  const ended = await Promise.all([first.ended, second.ended])
  expect(ended.map(({ code }) => code)).toEqual([0, 0])
  expect(second.output()).toContain('The database is up to date.')
})

test('the rights are granted while a session with rows of hot tables is idle in its transaction', async () => {
  const { url } = await connectToNew({ empty: false })
  await lockTables(url, ['pauses', 'jobs', 'payments', 'notifications', 'job_history', 'schema_migrations'])
  const reports: string[] = []
  expect(await migrate(url, (text) => reports.push(text))).toEqual([])
  expect(reports).toEqual([])
})

test('--plan prints new migrations, their locks and their durations, waits for no lock, and changes nothing', async () => {
  const { url, sql } = await connectToNew({ empty: false })
  await sql`insert into tenants (id, slug, name) select gen_random_uuid(), 'tenant-' || n, 'Tenant' from generate_series(1, 2998) n`
  await sql`vacuum analyze tenants`
  const root = await copyWith({
    '0801_note.sql': '-- locks: tenants, pauses\nalter table tenants add column note text',
    '0802_note.concurrently.sql':
      '-- locks: tenants share update exclusive\ncreate index concurrently tenants_note on tenants (note)',
  })
  const owner = await connect(url).reserve()
  await owner`begin`
  await owner`lock table tenants in access exclusive mode`
  const { code, stdout } = await runMigrate(root, url, '--plan')
  await owner`rollback`
  expect(code).toBe(0)
  expect(stdout).toMatch(
    /^New migrations: 2\n0801_note\.sql\n {2}one transaction: less than a second .+\n {2}locks tenants \(3,000 rows, \d MB\) in access exclusive mode: reads and writes wait\n.+\n0802_note\.concurrently\.sql\n {2}outside a transaction: .+\n {2}locks tenants .+ reads and writes go on\nroles\.sql\n/,
  )
  expect(await sql`select from schema_migrations where name like '080%'`).toHaveLength(0)
  const of_empty = await connectToNew()
  const plan = await runMigrate(ROOT, of_empty.url, '--plan')
  expect(plan.stdout).toContain(`New migrations: ${files.length}\n${files[0]}\n`)
  expect(await of_empty.sql`select to_regclass('schema_migrations') as found`).toEqual([{ found: null }])
})

test.for<[args: string[], variables: Record<string, string>]>([
  [[], { QUEUE: 'redis' }],
  [[], { QUEUE: 'postgres' }],
  [[], { REDIS_URL: 'redis://127.0.0.1:1' }],
  [[], { NODE_ENV: 'production' }],
  [[], { NODE_ENV: 'production', REDIS_URL: 'rediss://nobody.invalid:6379' }],
  // A plan reads the same configuration, but uses only the database.
  [['--plan'], { NODE_ENV: 'production', REDIS_URL: 'rediss://nobody.invalid:6379' }],
])('migrate with the arguments %o needs no Redis with %o', async ([args, variables]) => {
  const { url } = await connectToNew({ empty: false })
  const { code, stderr } = await runCommand('src/commands/migrate.ts', args, {
    DATABASE_URL: url,
    ...variables,
  })
  expect([code, stderr]).toEqual([0, ''])
})
