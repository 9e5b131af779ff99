// What several pages of the dashboard show alike: windows of time, and sums of the roll-ups of jobs.
import { z } from 'zod'
import { timestamp } from '#core/time.ts'
import type { RollupFigures, STAGES } from '../rollups/columns.ts'
import { addCounts, percentilesOf, type Percentiles } from '../rollups/histograms.ts'

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

/** The open jobs of a queue, or of one kind, as figures. */
export const openFields = {
  due: countField('Jobs that could begin now.'),
  later: countField('Jobs that wait for their time.'),
  running: countField('Jobs under way.'),
  unknown: countField('Jobs whose effect is not known.', 0),
  parked: countField('Jobs that wait for an operator.', 0),
  oldest_due_s: countField('For how long the oldest has been due, in seconds.', 0),
} satisfies Record<(typeof STAGES)[number] | 'oldest_due_s', z.ZodInt>

/** What these rows, which are in the order of time, say of open jobs at last. */
export function openNow(rows: RollupFigures[]): Record<keyof typeof openFields, number> {
  const last = lastSample(rows)
  return {
    due: last?.due ?? 0,
    later: last?.later ?? 0,
    running: last?.running ?? 0,
    unknown: last?.unknown ?? 0,
    parked: last?.parked ?? 0,
    oldest_due_s: last?.oldest_due_s ?? 0,
  }
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
