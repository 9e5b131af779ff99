// Waits for statements that wait for locks.
import { expect } from 'vitest'
import type { Sql } from '#core/db.ts'
import { eventually } from './payments.ts'

/** Resolves when this many statements wait for a lock in this database. */
export async function waitingForLocks(sql: Sql, count: number): Promise<void> {
  await eventually(async () => {
    const rows = await sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    expect(rows).toHaveLength(count)
  })
}
