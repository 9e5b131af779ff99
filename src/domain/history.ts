// History: finished jobs with all that belongs to them, and events, kept in partitions by time and forgotten by partition.
import type { Sql } from '#core/db.ts'

/** The kinds of history, each with an age of its own. The ledger, payments, refunds and customers are never forgotten. */
export const HISTORY_KINDS = ['jobs', 'notifications', 'events'] as const
export type HistoryKind = (typeof HISTORY_KINDS)[number]

/** How far the move has got: everything that finished before was looked at. */
export type MovePosition = { after: string; after_id: string }

export const BEGINNING: MovePosition = { after: '-infinity', after_id: '00000000-0000-0000-0000-000000000000' }

/**
 * Moves what finished more than an hour ago from the tables that are worked on into the history: jobs with their attempts
 * and notification, oldest first. Looks at `most` at once; `next` is null when there were fewer.
 */
export async function moveFinished(
  sql: Sql,
  { after, after_id }: MovePosition,
  most: number,
): Promise<{ moved: number; position: MovePosition; next: MovePosition | null }> {
  const [row] = await sql<
    { looked_at: number; moved: number; after: string | null; after_id: string | null }[]
  >`
    select looked_at, moved, reached::text as after, reached_id as after_id from move_finished_jobs(${after}, ${after_id}, ${most})`
  const position = row!.after === null ? { after, after_id } : { after: row!.after, after_id: row!.after_id! }
  return { moved: row!.moved, position, next: row!.looked_at < most ? null : position }
}

/** Makes a partition for a week to come; null when there are enough, or when it would have kept others waiting. */
export async function makeNextPartition(sql: Sql): Promise<string | null> {
  const [row] = await sql<{ name: string | null }[]>`select make_next_partition() as name`
  return row!.name
}

/** Drops the oldest partition that is older than `days`; null when there is none, or when it would have kept others waiting. */
export async function dropNextPartition(sql: Sql, kind: HistoryKind, days: number): Promise<string | null> {
  const [row] = await sql<{ name: string | null }[]>`select drop_next_partition(${kind}, ${days}) as name`
  return row!.name
}

/** How many rows fitted no partition, because nobody had made one in time; at most 1,000 of each table. */
export async function countStrays(sql: Sql): Promise<{ parent: string; strays: number }[]> {
  return await sql<{ parent: string; strays: number }[]>`select parent, strays from count_strays()`
}
