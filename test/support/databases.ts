// Databases of the tests. Each world has its own database, so that test files can run in parallel.
import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import type { Sql } from '#core/db.ts'
import { migrate } from '#core/migrate.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'
import { TEMPLATE } from './servers.ts'
import { createUsers } from './users.ts'

/** A database that is the one in use, for parts that are built without their process. */
export const CURRENT_DATABASE: DatabaseWatch = {
  isCurrent: () => true,
  assertCurrent() {},
  track: async (work) => await work(),
  whileCurrent: async (work) => await work(),
  unlessMoved: async (work) => await work(),
  reportProcess() {},
  isHeld: () => false,
  lostSince: () => null,
  hasSwitched: () => false,
  witnessProblems: () => [],
  close: async () => {},
}

const LOCK = 7_583_240_118

/**
 * Creates a database with all migrations on the given server, by default the suite's. `drop` closes open connections of
 * the database. With `empty`, the database has no tables.
 */
export async function createDatabase(
  server_url?: string,
  { empty = false } = {},
): Promise<{ url: string; drop: () => Promise<void> }> {
  // Imported here, because the module works only in Vitest, and other programs import this file.
  const server = server_url ?? (await (await import('./suite.ts')).postgresUrl())
  const name = `sluice_test_${randomBytes(6).toString('hex')}`
  await withConnection(server, async (sql) => {
    await migrateTemplate(sql, server)
    await sql.unsafe(`create database ${name} template ${empty ? 'template1' : TEMPLATE}`)
    // PostgreSQL does not copy privileges on a database from the template.
    await sql.unsafe(`revoke temporary on database ${name} from public`)
  })
  const url = urlOf(server, name)
  // A copy of a database would read what witnesses remember of the original, and of other copies. Its first check finds
  // the last heartbeat: that of the template may be so old that a failover counts as a restore.
  if (!empty)
    await withConnection(url, async (sql) => {
      await sql`update installation set id = gen_random_uuid(), drawn_at = clock_timestamp()`
      await sql`update database_heartbeat set at = clock_timestamp()`
    })
  return {
    url,
    drop: () =>
      withConnection(server, async (sql) => void (await sql.unsafe(`drop database ${name} with (force)`))),
  }
}

/** The first caller on a server runs the migrations. The other callers wait, and then copy the template. */
async function migrateTemplate(sql: postgres.Sql, server: string): Promise<void> {
  await sql`select pg_advisory_lock(${LOCK})`
  try {
    const [found] = await sql`select 1 from pg_database where datname = ${TEMPLATE}`
    if (found) return
    // The template gets its name when it is complete, so that a failed migration leaves no template.
    const unfinished = `${TEMPLATE}_unfinished`
    await sql.unsafe(`drop database if exists ${unfinished}`)
    await sql.unsafe(`create database ${unfinished}`)
    await migrate(urlOf(server, unfinished))
    await createUsers(sql)
    await sql.unsafe(`alter database ${unfinished} rename to ${TEMPLATE}`)
  } finally {
    await sql`select pg_advisory_unlock(${LOCK})`
  }
}

async function withConnection<T>(url: string, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    return await work(sql)
  } finally {
    await sql.end()
  }
}

function urlOf(server: string, database: string): string {
  const url = new URL(server)
  url.pathname = `/${database}`
  return url.href
}

/** Reads all rows of all tables of all tenants, as text. */
export async function readAllRows(sql: Sql): Promise<string> {
  const tables = await sql<{ name: string }[]>`
    select format('%I.%I', table_schema, table_name) as name from information_schema.tables
    where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')`
  const texts = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await sql.unsafe<{ row: string }[]>(`select to_jsonb(t)::text as row from ${name} t`)
      return rows.map(({ row }) => `${name} ${row}`).join('\n')
    }),
  )
  return texts.join('\n')
}
