// Reads the states of jobs for requests that wait for them, and counts unknown jobs.
import type { Sql } from '#core/db.ts'
import type { Settlement } from './settle.ts'

export type JobState = { id: string; state: string; last_error: Settlement['error'] }

/** The states of jobs; ids that do not exist are left out. */
export async function findJobStates(sql: Sql, ids: string[]): Promise<JobState[]> {
  const found = await sql<JobState[]>`select id, state, last_error from jobs where id = any(${ids}::uuid[])`
  if (found.length === ids.length) return found
  const known = new Set(found.map(({ id }) => id))
  const old = ids.filter((id) => !known.has(id))
  return [
    ...found,
    ...(await sql<JobState[]>`select id, state, last_error from job_history where id = any(${old}::uuid[])`),
  ]
}

/** How many jobs have a provider call whose effect is unknown. */
export async function countUnknown(sql: Sql): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*) from jobs where finished_at is null and unknown_since is not null`
  return row!.count
}
