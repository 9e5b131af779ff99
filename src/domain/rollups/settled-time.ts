// Up to when all is known: a time before which no transaction that is still under way can have finished a job.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'

/**
 * A time, and the transactions that were under way then. What carries an earlier time was written by one of these, or is
 * visible already.
 */
export const awaitedTimeSchema = z.object({ at: z.string(), transactions: z.array(z.string()) })
export type AwaitedTime = z.output<typeof awaitedTimeSchema>

/** `now()` of a transaction is taken a moment before it can be seen. */
const VISIBILITY_DELAY_MS = 1000
/**
 * For this long any transaction is waited for, later only those that have locked the jobs for writing: others, as a backup,
 * may take hours. A statement ends sooner.
 */
const WAIT_FOR_ALL_S = 15

/** A second ago, with the transactions of this database that are under way. */
export async function readTransactions(sql: Sql): Promise<AwaitedTime> {
  const [row] = await sql<AwaitedTime[]>`
    select clock_timestamp() - ${VISIBILITY_DELAY_MS} * interval '1 millisecond' as at,
      coalesce(jsonb_agg(l.virtualtransaction), '[]') as transactions
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.granted and l.pid <> pg_backend_pid()
      and a.datname = current_database()
      -- What vacuums, analyzes or builds an index writes no rows.
      and not exists (
        select from pg_locks v where v.pid = l.pid and v.locktype = 'relation' and v.mode = 'ShareUpdateExclusiveLock')`
  return row!
}

/** Whether these transactions are over, or cannot have finished a job any more. */
export async function isSettled(sql: Sql, { at, transactions }: AwaitedTime): Promise<boolean> {
  if (transactions.length === 0) return true
  const [row] = await sql<{ settled: boolean }[]>`
    select not exists (
      select from pg_locks l
      where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock'
        and l.virtualtransaction = any(${transactions}::text[])
        and (clock_timestamp() < ${at}::timestamptz + ${WAIT_FOR_ALL_S} * interval '1 second' or exists (
          select from pg_locks j
          where j.virtualtransaction = l.virtualtransaction and j.locktype = 'relation'
            and j.relation = 'jobs'::regclass and j.mode in ('RowShareLock', 'RowExclusiveLock')))
    ) as settled`
  return row!.settled
}
