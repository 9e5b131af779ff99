// The plan of `migrate`: the new files, their locks, and how long they take with the present rows. Changes nothing.
import type postgres from 'postgres'
import { databaseCode } from '../db.ts'
import { findPending } from '../migrate.ts'
import { createTarget, openSession } from '../postgres/servers.ts'
import { LOCK_MODES, readMigrations, type Migration, type TableLock } from './files.ts'
import { TRIES } from './lock-waits.ts'

/** Rows per second of steps that read or write whole tables: less than was measured on two cores under load. */
const ROWS_PER_S = { concurrent: 100_000, batches: 20_000, transaction: 1_000_000 }

type TableSize = { rows: number; bytes: number }

/** The lines of the plan. Errors: those of the connection; ConfigError if an applied migration was changed. */
export async function planMigrations(database_url: string): Promise<string[]> {
  const sql = openSession(createTarget(database_url))
  try {
    const pending = await findPending(sql).catch(async (error: unknown) => {
      if (databaseCode(error) !== '42P01') throw error
      return await readMigrations()
    })
    const plans: string[] = []
    for (const migration of pending) plans.push(...(await planOf(sql, migration)))
    return [
      pending.length === 0 ? 'The database is up to date.' : `New migrations: ${pending.length}`,
      ...plans,
      'roles.sql',
      '  one transaction: grants all rights anew; waits for readers and writers of a table only if its policies change',
      `Each wait for a lock lasts ${TRIES.max_wait_ms / 1000} s at most, with a pause after it, up to ${TRIES.max_tries} times.`,
      'Rows and sizes are those that PostgreSQL knows from its last analysis. Durations are estimates for two cores under load.',
      'Nothing was changed.',
    ]
  } finally {
    await sql.end()
  }
}

async function planOf(sql: postgres.Sql, { name, kind, locks }: Migration): Promise<string[]> {
  const sizes = await Promise.all(locks.map(({ table }) => sizeOf(sql, table)))
  const rows = sizes.reduce((sum, size) => sum + (size?.rows ?? 0), 0)
  // A transaction that excludes writers changes the catalog only: the rules for authors demand it.
  const reads_rows = kind !== 'transaction' || locks.every(({ mode }) => !LOCK_MODES[mode].endsWith('wait'))
  return [
    name,
    `  ${KINDS[kind]}: ${reads_rows ? durationOf(rows, ROWS_PER_S[kind]) : 'less than a second'} after the locks are free`,
    ...locks.map((lock, index) => `  ${describeLock(lock, sizes[index])}`),
  ]
}

const KINDS = {
  transaction: 'one transaction',
  concurrent: 'outside a transaction',
  batches: 'outside a transaction, in batches',
}

function durationOf(rows: number, rows_per_s: number): string {
  const estimate_s = Math.ceil(rows / rows_per_s)
  return estimate_s <= 1
    ? 'less than a second'
    : `about ${estimate_s} s (${count(rows)} rows at ${count(rows_per_s)} per second)`
}

function describeLock({ table, mode }: TableLock, size: TableSize | null | undefined): string {
  const facts = size
    ? `${count(size.rows)} rows, ${count(Math.ceil(size.bytes / 1_000_000))} MB`
    : 'a new table'
  return `locks ${table} (${facts}) in ${mode} mode: ${LOCK_MODES[mode]}`
}

/** The size of a table with its partitions and indexes, read without a lock; null if it does not exist yet. */
async function sizeOf(sql: postgres.Sql, table: string): Promise<TableSize | null> {
  const [size] = await sql<(TableSize & { found: boolean })[]>`
    with tables as (
      select oid, reltoastrelid, reltuples from pg_class where oid = to_regclass(${table})
        or oid in (select inhrelid from pg_inherits where inhparent = to_regclass(${table}))
    ), files as (
      select oid from tables
      union all select reltoastrelid from tables
      union all select indexrelid from pg_index where indrelid in (select oid from tables)
    ), size as (
      select coalesce(sum(relpages), 0)::float8 * current_setting('block_size')::integer as bytes
      from pg_class where oid in (select oid from files)
    )
    select count(*) > 0 as found, coalesce(sum(greatest(reltuples, 0)), 0)::float8 as rows,
      (select bytes from size) as bytes
    from tables`
  return size!.found ? size! : null
}

const count = (value: number) => Math.round(value).toLocaleString('en')
