// New migrations keep the rules for authors: they stop no work, and name the tables that they lock.
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import postgres from 'postgres'
import { beforeAll, expect, test } from 'vitest'
import { parseMigration, readMigrations, type Migration } from '#core/migrate/files.ts'
import { applyMigration } from '#core/migrate/steps.ts'
import { TRIES } from '#core/migrate/lock-waits.ts'
import { createDatabase } from '#test/databases.ts'
import { ruleViolations } from '#test/migration-rules.ts'

/** The migrations before this one create the first tables. */
const FIRST_RULED = '0016'
const OF_THE_UPGRADE = fileURLToPath(new URL('support/upgrade/', import.meta.url))

let sql: postgres.Sql

/** A database with the tables of the first release only. */
beforeAll(async () => {
  const database = await createDatabase(undefined, { empty: true })
  sql = postgres(database.url, { max: 1, fetch_types: false, onnotice: () => {} })
  const first = (await readMigrations()).filter(({ name }) => name < FIRST_RULED)
  for (const { text } of first) await sql.unsafe(text)
  await sql`create table schema_migrations (name text primary key, checksum text not null)`
  return async () => {
    await sql.end()
    await database.drop()
  }
})

const wait = { findBlockingSessions: () => Promise.resolve([]), report: () => {}, tries: TRIES }

/** The violations of each, applied one after the other. */
async function violationsOfAll(migrations: Migration[]): Promise<string[]> {
  const violations: string[] = []
  for (const migration of migrations) {
    violations.push(...(await ruleViolations(sql, migration)).map((each) => `${migration.name}: ${each}`))
    await applyMigration(sql, migration, wait)
  }
  return violations
}

test('each migration since the first release, and each one of the test of upgrades, keeps the rules', async () => {
  const names = (await readdir(OF_THE_UPGRADE)).toSorted()
  const of_the_upgrade = await Promise.all(
    names.map(async (name) => parseMigration(name, await readFile(join(OF_THE_UPGRADE, name), 'utf8'))),
  )
  expect(of_the_upgrade.map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(['transaction', 'batches', 'concurrent']),
  )
  const ruled = (await readMigrations()).filter(({ name }) => name >= FIRST_RULED)
  expect(await violationsOfAll([...ruled, ...of_the_upgrade])).toEqual([])
})

test.each([
  [
    'alter table refunds add column note text',
    'it locks refunds in access exclusive mode and does not say so',
  ],
  [
    '-- locks: refunds share\nalter table refunds add column note text',
    'it locks refunds in access exclusive mode',
  ],
  [
    '-- locks: refunds share\ncreate index on refunds (reason)',
    'it builds an index inside a transaction on refunds',
  ],
  [
    '-- locks: refunds\nalter table refunds add column note uuid default gen_random_uuid()',
    'it rewrites refunds',
  ],
  ['-- locks: refunds\nalter table refunds alter column amount_minor type numeric', 'it rewrites refunds'],
  ["-- locks: refunds\nalter table refunds add check (reason <> '')", 'it checks all rows of refunds'],
  [
    '-- locks: refunds\nalter table refunds alter column reason set not null',
    'it checks all rows of refunds',
  ],
  ["update refunds set reason = ''", 'it changes rows of refunds in one transaction'],
  [
    'create table notes (tenant_id uuid references tenants (id))',
    'it locks tenants in share row exclusive mode',
  ],
  [
    '-- locks: job_history\nalter table job_history add column seen_at timestamptz default clock_timestamp()',
    'it rewrites job_history_default',
  ],
])('a migration that breaks a rule is refused: %s', async (text, violation) => {
  expect(await ruleViolations(sql, parseMigration('0999_example.sql', text))).toContainEqual(
    expect.stringContaining(violation),
  )
})

test.each([
  ['-- locks: refunds\nalter table refunds add column note text'],
  ["-- locks: refunds\nalter table refunds add column note text not null default 'none'"],
  ['-- locks: refunds\nalter table refunds add check (amount_minor < 10) not valid'],
  ['-- locks: tenants share row exclusive\ncreate table notes (tenant_id uuid references tenants (id))'],
  [
    'create table notes (tenant_id uuid, at timestamptz default clock_timestamp()); create index on notes (tenant_id)',
  ],
])('a migration that keeps the rules is allowed: %s', async (text) => {
  expect(await ruleViolations(sql, parseMigration('0999_example.sql', text))).toEqual([])
})

test.each([
  ['alter table refunds add column note text', 'it can run in a transaction'],
  [
    'create index concurrently refunds_reason on refunds (reason)',
    'it does not name the table that it locks',
  ],
  [
    "-- locks: refunds row exclusive\ndo $$ begin update refunds set reason = ''; end $$",
    'it does not commit batches',
  ],
])('a step outside a transaction that breaks a rule is refused: %s', async (text, violation) => {
  expect(await ruleViolations(sql, parseMigration('0999_example.concurrently.sql', text))).toContain(
    violation,
  )
})
