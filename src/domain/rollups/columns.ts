// What a row of the roll-ups of jobs holds.
import type { Fragment, Sql } from '#core/db.ts'

/** What is counted of jobs that finished in one minute or hour, and that came then. */
export const COUNTERS = ['succeeded', 'failed', 'discarded', 'declined', 'attempts', 'arrived'] as const
export type Counter = (typeof COUNTERS)[number]
/** Where open jobs stand. */
export const STAGES = ['due', 'later', 'running', 'unknown', 'parked'] as const
/** What is seen of open jobs: how many are at a stage, or have a call of that kind; how long the oldest has been due. */
export const OPEN_COUNTS = [...STAGES, 'refused', 'in_doubt'] as const
export const OPEN_COLUMNS = [...OPEN_COUNTS, 'oldest_due_s'] as const
export type OpenFigures = Record<(typeof OPEN_COLUMNS)[number], number>

export const ZERO_COUNTERS = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Record<Counter, 0>
export const ZERO_OPEN = Object.fromEntries(OPEN_COLUMNS.map((name) => [name, 0])) as OpenFigures

/** A row of the roll-ups: of jobs that finished in one minute or hour, and of those that were open then, if somebody looked. */
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
