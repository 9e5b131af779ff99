// The history: finished jobs with their attempts and notifications, and events, in weekly partitions. Old partitions
// are dropped. Customers, payments, refunds and the ledger are kept forever.
import type { HistoryKind } from '#core/config/retention.ts'
import type { Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'

/** The position of a move: all rows before it have been scanned. */
export type MovePosition = { after: string; after_id: string }

type MoveResult = { moved: number; position: MovePosition; next: MovePosition | null }

export const HISTORY_START: MovePosition = {
  after: '-infinity',
  after_id: LOWEST_ID,
}

/**
 * Moves jobs that finished more than an hour ago, with their attempts and notification, from the working tables into
 * the history, oldest first. Scans at most `limit` jobs; `next` is null if fewer were found.
 */
export async function moveFinishedJobs(sql: Sql, position: MovePosition, limit: number): Promise<MoveResult> {
  return await move(sql, 'move_finished_jobs', position, limit)
}

/** Moves notifications that were final on arrival and have no job. */
export async function moveJoblessNotifications(
  sql: Sql,
  position: MovePosition,
  limit: number,
): Promise<MoveResult> {
  return await move(sql, 'move_notifications', position, limit)
}

async function move(
  sql: Sql,
  function_name: string,
  { after, after_id }: MovePosition,
  limit: number,
): Promise<MoveResult> {
  const [row] = await sql<
    { scanned: number; moved: number; after: string | null; after_id: string | null }[]
  >`
    select scanned, moved, reached::text as after, reached_id as after_id
    from ${sql(function_name)}(${after}, ${after_id}, ${limit})`
  const position = row!.after === null ? { after, after_id } : { after: row!.after, after_id: row!.after_id! }
  return { moved: row!.moved, position, next: row!.scanned < limit ? null : position }
}

/** Creates a partition for a coming week. Null when there are enough, or when the lock is not free at once. */
export async function createNextPartition(sql: Sql): Promise<string | null> {
  const [row] = await sql<{ name: string | null }[]>`select make_next_partition() as name`
  return row!.name
}

/**
 * Drops the oldest partition that is older than `days`. Null when there is none, or when the lock is not free at once.
 */
export async function dropNextPartition(sql: Sql, kind: HistoryKind, days: number): Promise<string | null> {
  const [row] = await sql<{ name: string | null }[]>`select drop_next_partition(${kind}, ${days}) as name`
  return row!.name
}

/** The number of rows outside all weekly partitions, up to 1,000 per table: their partition was not created in time. */
export async function countStrays(sql: Sql): Promise<{ parent: string; strays: number }[]> {
  return await sql<{ parent: string; strays: number }[]>`select parent, strays from count_strays()`
}

/** For how many days from now each table has partitions without a gap; 0 if the present week has none. */
export async function findPartitionsAhead(sql: Sql): Promise<{ table: string; days: number }[]> {
  return await sql<{ table: string; days: number }[]>`
    select parent as "table", case
      when bool_or(coalesce(from_time, '-infinity') <= now() and to_time > now())
      then extract(epoch from min(to_time) filter (where ends and to_time > now()) - now()) / 86400
      else 0 end::float8 as days
    from (
      select parent, from_time, to_time,
        lead(from_time) over (partition by parent order by to_time) is distinct from to_time as ends
      from partitions where not is_default
    ) p
    group by parent`
}
