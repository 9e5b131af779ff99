// Locks tables, and waits for statements that wait for locks.
import { expect, onTestFinished } from 'vitest'
import type { Sql } from '#core/db.ts'
import { eventually } from './payments.ts'

/**
 * Locks a table against all other statements until `unlock` is called or the test ends. `locked` resolves when the lock
 * is granted.
 */
export function lockTable(sql: Sql, table: string): { locked: Promise<void>; unlock: () => Promise<void> } {
  const [locked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const ended = sql.begin(async (tx) => {
    await tx`lock table ${tx(table)} in access exclusive mode`
    locked.resolve()
    await released.promise
  })
  const unlock = async () => {
    released.resolve()
    await ended
  }
  onTestFinished(unlock)
  return { locked: locked.promise, unlock }
}

/** Resolves when this many statements wait for a lock in this database. */
export async function waitingForLocks(sql: Sql, count: number): Promise<void> {
  await eventually(async () => {
    const rows = await sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    expect(rows).toHaveLength(count)
  })
}
