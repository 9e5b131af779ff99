// Finds a time before which no open transaction can still finish a job.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'

/**
 * A time, and the transactions open at that time. A row with an earlier time was written by one of them or is
 * already visible.
 */
export const awaitedTimeSchema = z.object({ at: z.string(), transactions: z.array(z.string()) })
export type AwaitedTime = z.output<typeof awaitedTimeSchema>

/** The time by which a transaction's `now()` may precede the transaction's appearance in `pg_locks`. */
const VISIBILITY_DELAY_MS = 1000
/**
 * The time for which all transactions are awaited; it is longer than the timeout of our statements. After this time,
 * only transactions that lock jobs for writing are awaited: others, such as a backup, may take hours.
 */
const ALL_TRANSACTIONS_WAIT_S = 15

/** The time `VISIBILITY_DELAY_MS` ago, with the open transactions of this database. */
export async function readTransactions(sql: Sql): Promise<AwaitedTime> {
  const [row] = await sql<AwaitedTime[]>`
    select clock_timestamp() - ${VISIBILITY_DELAY_MS} * interval '1 millisecond' as at,
      coalesce(jsonb_agg(l.virtualtransaction), '[]') as transactions
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.granted and l.pid <> pg_backend_pid()
      and a.datname = current_database()
      -- Vacuum, analyze and index builds finish no jobs.
      and not exists (
        select from pg_locks v where v.pid = l.pid and v.locktype = 'relation' and v.mode = 'ShareUpdateExclusiveLock')`
  return row!
}

/** Whether these transactions have ended or can no longer finish a job. */
export async function isSettled(sql: Sql, { at, transactions }: AwaitedTime): Promise<boolean> {
  if (transactions.length === 0) return true
  const [row] = await sql<{ settled: boolean }[]>`
    select not exists (
      select from pg_locks l
      where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock'
        and l.virtualtransaction = any(${transactions}::text[])
        and (clock_timestamp() < ${at}::timestamptz + ${ALL_TRANSACTIONS_WAIT_S} * interval '1 second' or exists (
          select from pg_locks j
          where j.virtualtransaction = l.virtualtransaction and j.locktype = 'relation'
            and j.relation = 'jobs'::regclass and j.mode in ('RowShareLock', 'RowExclusiveLock')))
    ) as settled`
  return row!.settled
}
