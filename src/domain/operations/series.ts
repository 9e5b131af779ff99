// A queue over time, for charts.
import { z } from 'zod'
import { QUEUES, type QueueName } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { dateTime, timestamp } from '#core/time.ts'
import { countedFields, findCountProgress } from './counted.ts'
import { countField, sumRollups } from './figures.ts'
import { rollupColumns, type RollupFigures } from '../rollups/columns.ts'
import { percentilesSchema } from '../rollups/histograms.ts'
import { MINUTE_RETENTION_H } from '../rollups/retention.ts'

const MAX_POINTS = 500
/** The longest period that is read by the minute; longer periods are read by the hour. */
const MAX_BY_MINUTE_S = 12 * 3600

export const seriesQuerySchema = z.object({
  queue: z.enum(QUEUES).meta({ description: 'The queue.', example: 'payments' }),
  name: z
    .string()
    .min(1)
    .optional()
    .meta({ description: 'Only jobs of this name.', example: 'payment.capture' }),
  from: dateTime.meta({ description: 'The start.' }),
  to: dateTime.meta({ description: 'The end.' }),
  points: z.coerce
    .number()
    .int()
    .min(1)
    .max(MAX_POINTS)
    .default(60)
    .meta({ description: 'The maximum number of points.', example: 60 }),
})

export type SeriesQuery = { queue: QueueName; name?: string; from: string; to: string; points: number }

const maximum = (description: string) => z.int().nullable().meta({ description, example: 3 })

export const seriesSchema = z
  .object({
    step_s: countField('The length of each point in seconds.', 60),
    points: z.array(
      z.object({
        at: timestamp.meta({ description: 'The start.' }),
        in: countField('Created jobs.'),
        out: countField('Finished jobs.'),
        failed: countField('Finished jobs that failed or were discarded.', 0),
        due: maximum('The maximum number of due jobs; null without a sample.'),
        oldest_due_s: maximum('The maximum time that a job had been due, in seconds.'),
        wait: percentilesSchema.meta({
          description: 'The time from when a job was due to its last attempt.',
        }),
        run: percentilesSchema.meta({ description: 'The duration of its last attempt.' }),
      }),
    ),
    ...countedFields,
  })
  .meta({ id: 'JobSeries', description: 'A queue, or one of its job names, over time.' })
export type Series = z.output<typeof seriesSchema>

/**
 * A queue over time. All points have the same number of whole minutes, or of hours if the period is longer than
 * half a day or older than the retained minutes. Points without jobs are included. `to` is at most now.
 */
export async function findSeries(
  sql: Sql,
  { queue, name = '', from, to, points }: SeriesQuery,
): Promise<Series> {
  const to_ms = Math.min(Date.parse(to), Date.now())
  const span_s = Math.max(60, (to_ms - Date.parse(from)) / 1000)
  const is_retained = Date.parse(from) > Date.now() - MINUTE_RETENTION_H * 3600_000
  const resolution = span_s <= MAX_BY_MINUTE_S && is_retained ? 60 : 3600
  const step_s = resolution * Math.ceil(span_s / resolution / points)
  const begin_ms = Math.floor(Date.parse(from) / (resolution * 1000)) * resolution * 1000
  const [{ open, counting }, rows] = await Promise.all([
    findCountProgress(sql),
    sql<RollupFigures[]>`
      select ${rollupColumns(sql)} from job_rollups
      where resolution = ${resolution} and queue = ${queue} and name = ${name}
        and at >= ${new Date(begin_ms).toISOString()} and at < ${new Date(to_ms).toISOString()}
      order by at`,
  ])
  const count = Math.max(0, Math.ceil((to_ms - begin_ms) / (step_s * 1000)))
  const steps = Array.from({ length: count }, (): RollupFigures[] => [])
  for (const row of rows) steps[Math.floor((Date.parse(row.at) - begin_ms) / (step_s * 1000))]?.push(row)
  return {
    step_s,
    points: steps.map((of_step, nth) => {
      const { in: arrived, out, failed, discarded, wait, run } = sumRollups(of_step)
      return {
        at: new Date(begin_ms + nth * step_s * 1000).toISOString().replace('Z', '000Z'),
        in: arrived,
        out,
        failed: failed + discarded,
        due: maxOf(of_step.map(({ due }) => due)),
        oldest_due_s: maxOf(of_step.map(({ oldest_due_s }) => oldest_due_s)),
        wait,
        run,
      }
    }),
    as_of: open,
    counting,
  }
}

function maxOf(values: (number | null)[]): number | null {
  const values_seen = values.filter((value) => value !== null)
  return values_seen.length === 0 ? null : Math.max(...values_seen)
}
