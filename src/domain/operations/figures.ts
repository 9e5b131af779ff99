// What several pages of the dashboard show alike: windows of time, and sums of the roll-ups of jobs.
import { z } from 'zod'
import type { Fragment, Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { addCounts, percentilesOf, type Percentiles } from './histograms.ts'

const WINDOWS_S = { '5m': 300, '15m': 900, '1h': 3600, '24h': 86_400, '7d': 7 * 86_400 }

/** How far back figures go. */
export const figureWindow = z
  .enum(['5m', '15m', '1h', '24h', '7d'])
  .meta({ description: 'How far back it goes.', example: '1h' })
export type FigureWindow = z.output<typeof figureWindow>

export const asOf = timestamp
  .nullable()
  .meta({ description: 'Up to when the numbers hold; null before the first count.' })

export const countField = (description: string, example = 12) => z.int().meta({ description, example })

/** What the roll-ups say of jobs that finished in one minute or hour, and of those that were open then. */
export type RollupFigures = {
  at: string
  queue: string
  name: string
  succeeded: number
  failed: number
  discarded: number
  declined: number
  attempts: number
  arrived: number
  wait: number[]
  run: number[]
  due: number | null
  later: number | null
  running: number | null
  unknown: number | null
  parked: number | null
  refused: number | null
  in_doubt: number | null
  oldest_due_s: number | null
  sampled_at: string | null
}

/** The columns of `job_rollups`, with histograms as JSON. */
export function rollupColumns(sql: Sql): Fragment {
  return sql`
    at, queue, name, succeeded, failed, discarded, declined, attempts, arrived, to_jsonb(wait) as wait,
    to_jsonb(run) as run, due, later, running, unknown, parked, refused, in_doubt, oldest_due_s, sampled_at`
}

/** The seconds of a window, and whether its figures are read by the minute (60) or by the hour (3600). */
export function spanOf(window: FigureWindow): { span_s: number; resolution: 60 | 3600 } {
  const span_s = WINDOWS_S[window]
  return { span_s, resolution: span_s <= 3600 ? 60 : 3600 }
}

export type RollupSum = Record<
  'in' | 'out' | 'succeeded' | 'failed' | 'discarded' | 'declined' | 'retries',
  number
> & {
  wait: Percentiles
  run: Percentiles
}

/** The sums of some rows; `retries`: attempts beyond the first of each job that finished. */
export function sumRollups(rows: RollupFigures[]): RollupSum {
  const sum = { in: 0, out: 0, succeeded: 0, failed: 0, discarded: 0, declined: 0, retries: 0 }
  const [wait, run]: [number[], number[]] = [[], []]
  for (const row of rows) {
    const out = row.succeeded + row.failed + row.discarded
    sum.in += row.arrived
    sum.out += out
    sum.succeeded += row.succeeded
    sum.failed += row.failed
    sum.discarded += row.discarded
    sum.declined += row.declined
    // What was discarded before its first attempt has none.
    sum.retries += Math.max(0, row.attempts - out)
    addCounts(wait, row.wait)
    addCounts(run, row.run)
  }
  return { ...sum, wait: percentilesOf(wait), run: percentilesOf(run) }
}

/** The last of these rows, which are in the order of time, at which open jobs were counted. */
export function lastSample(rows: RollupFigures[]): RollupFigures | undefined {
  return rows.findLast(({ sampled_at }) => sampled_at !== null)
}

/** The latest of these times; null when there is none. */
export function latestOf(times: (string | null | undefined)[]): string | null {
  return times.reduce<string | null>(
    (last, time) => (time && (last === null || time > last) ? time : last),
    null,
  )
}
