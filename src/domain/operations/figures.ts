// Shared figures of the dashboard: time windows, and sums of the job roll-ups.
import { z } from 'zod'
import type { RollupFigures, STAGES } from '../rollups/columns.ts'
import { addCounts, percentilesOf, type Percentiles } from '../rollups/histograms.ts'

const WINDOWS_S = { '5m': 300, '15m': 900, '1h': 3600, '24h': 86_400, '7d': 7 * 86_400 }

/** The time window of figures. */
export const figureWindow = z
  .enum(['5m', '15m', '1h', '24h', '7d'])
  .meta({ description: 'The length of the window, up to now.', example: '1h' })
export type FigureWindow = z.output<typeof figureWindow>

export const countField = (description: string, example = 12) => z.int().meta({ description, example })

/** Figures of the open jobs of a queue or of a job name. */
export const openFields = {
  due: countField('Jobs that are due.'),
  later: countField('Jobs scheduled for later.'),
  running: countField('Running jobs.'),
  unknown: countField('Jobs with an unknown effect.', 0),
  parked: countField('Jobs that wait for an operator.', 0),
  oldest_due_s: countField('How long the oldest job has been due, in seconds.', 0),
} satisfies Record<(typeof STAGES)[number] | 'oldest_due_s', z.ZodInt>

/** The open jobs in this row; all zero without a row. */
export function openJobCounts(row: RollupFigures | undefined): Record<keyof typeof openFields, number> {
  return {
    due: row?.due ?? 0,
    later: row?.later ?? 0,
    running: row?.running ?? 0,
    unknown: row?.unknown ?? 0,
    parked: row?.parked ?? 0,
    oldest_due_s: row?.oldest_due_s ?? 0,
  }
}

/** The length of a window in seconds, and the resolution of its roll-ups: a minute (60) or an hour (3600). */
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

/** The sums of these rows. `retries`: the attempts beyond the first of each finished job. */
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
    // A job discarded before its first attempt has no attempts, so there may be fewer attempts than jobs.
    sum.retries += Math.max(0, row.attempts - out)
    addCounts(wait, row.wait)
    addCounts(run, row.run)
  }
  return { ...sum, wait: percentilesOf(wait), run: percentilesOf(run) }
}
