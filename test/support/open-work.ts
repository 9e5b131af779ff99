// What is still to be done.
import type { Sql } from '#core/db.ts'

/**
 * Whether anything will be done within `soon_s` seconds without being asked for again: a job that is due by then, or a
 * notification that waits, which has no job. A job that is due later waits on purpose: its effect is not known, or its
 * notification is parked.
 */
export async function hasOpenWork(sql: Sql, soon_s: number): Promise<boolean> {
  const [row] = await sql<{ open: boolean }[]>`
    select exists (select from jobs where finished_at is null and run_at < now() + ${soon_s} * interval '1 second')
      or exists (select from notifications where state = 'waiting') as open`
  return row!.open
}
