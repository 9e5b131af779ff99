// Applies one migration: in a transaction, or as a step outside of one.
import { setTimeout as sleep } from 'node:timers/promises'
import type postgres from 'postgres'
import { databaseCode } from '../db.ts'
import type { Migration, TableLock } from './files.ts'
import { runOutsideTransaction } from './outside-transaction.ts'
import {
  retryWhileLocked,
  SESSIONS_BLOCKING_LOCK,
  TableLockedError,
  type BlockingSession,
  type LockWait,
} from './lock-waits.ts'

/** A session that holds a lock never waits longer than this for another one. */
const WAIT_WITH_LOCKS_MS = 100
/** The time that a session with locks polls for the next one, and the pause between two polls. */
const POLL_LIMIT_MS = 300
const POLL_EVERY_MS = 10

/** Applies the migration and records it. Errors: ConfigError if locks prevent it; those of its statements. */
export async function applyMigration(sql: postgres.Sql, migration: Migration, wait: LockWait): Promise<void> {
  if (migration.kind === 'transaction')
    return await runInTransaction(sql, migration, wait, (tx) => recordMigration(tx, migration))
  await runOutsideTransaction(sql, migration, wait)
  await recordMigration(sql, migration)
}

/** Takes the locks in their order, runs the statements and then `finish`, in one transaction. Retries while locked. */
export async function runInTransaction(
  sql: postgres.Sql,
  { name, text, locks }: Pick<Migration, 'name' | 'text' | 'locks'>,
  wait: LockWait,
  finish: (tx: postgres.TransactionSql) => Promise<void> = async () => {},
): Promise<void> {
  await retryWhileLocked(name, wait, async (lock_timeout_ms) => {
    await sql.begin(async (tx) => {
      // Otherwise a limit of the server or the user could end a step in its middle.
      await tx.unsafe(
        `set local statement_timeout = 0; set local transaction_timeout = 0; set local lock_timeout = ${lock_timeout_ms}`,
      )
      await takeLocks(tx, await inOrder(tx, locks))
      await tx.unsafe(`set local lock_timeout = ${WAIT_WITH_LOCKS_MS}`)
      await tx.unsafe(text)
      await finish(tx)
    })
  })
}

/** The order of all migrations: `pauses`, views (whose readers lock the view first), `jobs`, other tables by name. */
async function inOrder(tx: postgres.TransactionSql, locks: TableLock[]): Promise<TableLock[]> {
  const order = await tx<{ name: string }[]>`
    select name from unnest(string_to_array(${locks.map(({ table }) => table).join()}, ',')) name
    left join pg_class c on c.oid = to_regclass(quote_ident(name))
    order by name = 'pauses' desc, coalesce(c.relkind = 'v', false) desc, name = 'jobs' desc, name`
  return order.map(({ name }) => locks.find(({ table }) => table === name)!)
}

/**
 * Only the first lock is waited for. For the others the session polls: a statement of a process that has one table and
 * waits for the other would form a deadlock with a session that waits, and PostgreSQL could end that statement.
 */
async function takeLocks(tx: postgres.TransactionSql, locks: TableLock[]): Promise<void> {
  for (const [index, lock] of locks.entries()) {
    if (index === 0) await tx.unsafe(lockStatement(lock))
    else await pollForLock(tx, lock)
  }
}

async function pollForLock(tx: postgres.TransactionSql, lock: TableLock): Promise<void> {
  const deadline = performance.now() + POLL_LIMIT_MS
  for (;;) {
    try {
      await tx.savepoint((savepoint) => savepoint.unsafe(`${lockStatement(lock)} nowait`))
      return
    } catch (error) {
      if (databaseCode(error) !== '55P03') throw error
      if (performance.now() > deadline)
        throw new TableLockedError(
          await tx.unsafe<BlockingSession[]>(SESSIONS_BLOCKING_LOCK, [lock.table, lock.mode]),
        )
    }
    await sleep(POLL_EVERY_MS)
  }
}

const lockStatement = ({ table, mode }: TableLock) => `lock table ${table} in ${mode} mode`

async function recordMigration(
  sql: postgres.Sql | postgres.TransactionSql,
  { name, checksum }: Migration,
): Promise<void> {
  await sql`insert into schema_migrations (name, checksum) values (${name}, ${checksum})`
}
