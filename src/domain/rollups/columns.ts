// The columns of the job roll-ups.
import type { Fragment, Sql } from '#core/db.ts'

/** The counters of jobs that finished or arrived in a minute or hour. */
export const COUNTERS = ['succeeded', 'failed', 'discarded', 'declined', 'attempts', 'arrived'] as const
export type Counter = (typeof COUNTERS)[number]
/** The stages of open jobs. */
export const STAGES = ['due', 'later', 'running', 'unknown', 'parked'] as const
/** The counts of open jobs, by stage and by state of their call. */
export const OPEN_COUNTS = [...STAGES, 'refused', 'in_doubt'] as const
/** The counts, and for how many seconds the oldest due job has been due. */
export const OPEN_COLUMNS = [...OPEN_COUNTS, 'oldest_due_s'] as const
export type OpenFigures = Record<(typeof OPEN_COLUMNS)[number], number>

export const ZERO_COUNTERS = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Record<Counter, 0>
export const ZERO_OPEN = Object.fromEntries(OPEN_COLUMNS.map((name) => [name, 0])) as OpenFigures

/** A row of the job roll-ups: the jobs that finished in a minute or hour, and the open jobs if they were sampled. */
export type RollupFigures = Record<Counter, number> & { [column in keyof OpenFigures]: number | null } & {
  at: string
  queue: string
  name: string
  wait: number[]
  run: number[]
  sampled_at: string | null
}

/** The columns of `job_rollups`, with histograms as JSON. */
export function rollupColumns(sql: Sql): Fragment {
  return sql`
    at, queue, name, ${sql([...COUNTERS])}, to_jsonb(wait) as wait, to_jsonb(run) as run, ${sql([...OPEN_COLUMNS])},
    sampled_at`
}
