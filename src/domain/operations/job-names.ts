// The figures of each job name in a queue.
import { z } from 'zod'
import type { QueueName } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { countedFields, findCountProgress } from './counted.ts'
import { countField, openFields, openJobCounts, spanOf, sumRollups, type FigureWindow } from './figures.ts'
import { rollupColumns, type RollupFigures } from '../rollups/columns.ts'
import { percentilesSchema } from '../rollups/histograms.ts'

export const nameFiguresSchema = z
  .object({
    names: z.array(
      z.object({
        name: z.string().meta({ description: 'The name of the job.', example: 'payment.capture' }),
        in: countField('Created jobs.'),
        out: countField('Finished jobs.'),
        succeeded: countField('Finished jobs that succeeded.'),
        failed: countField('Finished jobs that failed.', 0),
        discarded: countField('Discarded jobs.', 0),
        retries: countField('Attempts beyond the first.', 0),
        wait: percentilesSchema.meta({
          description: 'The time from when a job was due to its last attempt.',
        }),
        run: percentilesSchema.meta({ description: 'The duration of its last attempt.' }),
        ...openFields,
      }),
    ),
    ...countedFields,
  })
  .meta({ id: 'JobNameFigures', description: 'The job names of a queue with their figures.' })
export type NameFigures = z.output<typeof nameFiguresSchema>

/**
 * The job names of a queue, the busiest first. A name without jobs in the window and without open jobs is omitted.
 * Windows of more than an hour consist of whole hours.
 */
export async function findNameFigures(
  sql: Sql,
  { queue, window }: { queue: QueueName; window: FigureWindow },
): Promise<NameFigures> {
  const of = { queue, names: JOB_NAMES }
  const [rows, open, counted] = await Promise.all([
    findRollups(sql, { ...of, window }),
    findOpenJobCounts(sql, of),
    findCountProgress(sql),
  ])
  const by_name = Map.groupBy(rows, ({ name }) => name)
  const names = [...new Set([...by_name.keys(), ...open.keys()])].map((name) => {
    const { declined: _, ...sum } = sumRollups(by_name.get(name) ?? [])
    return { name, ...sum, ...openJobCounts(open.get(name)) }
  })
  return {
    names: names.toSorted((a, b) => b.out - a.out || (a.name < b.name ? -1 : 1)),
    as_of: counted.open,
    counting: counted.counting,
  }
}

/** The roll-ups of these names within the window, in order of time. */
export async function findRollups(
  sql: Sql,
  { queue, names, window }: { queue: string; names: readonly string[]; window: FigureWindow },
): Promise<RollupFigures[]> {
  const { span_s, resolution } = spanOf(window)
  return await sql<RollupFigures[]>`
    select ${rollupColumns(sql)} from unnest(${[...names]}::text[]) as requested(of_name)
    cross join lateral (
      select * from job_rollups r
      where r.resolution = ${resolution} and r.queue = ${queue} and r.name = requested.of_name
        and r.at >= now() - ${span_s} * interval '1 second'
    ) r
    order by at`
}

/**
 * For each of these names, the row that the last count of open jobs wrote, however long ago. A name without a
 * row had no open jobs then: rows of earlier counts are outdated.
 */
export async function findOpenJobCounts(
  sql: Sql,
  { queue, names }: { queue: string; names: readonly string[] },
): Promise<Map<string, RollupFigures>> {
  const rows = await sql<RollupFigures[]>`
    select ${rollupColumns(sql)} from (
      -- Every count of open jobs writes a row for the whole queue, so the latest of these rows has the time of the last
      -- count.
      select l.at as last_at, l.sampled_at as last_sampled_at from job_rollups l
      where l.resolution = 60 and l.queue = ${queue} and l.name = '' and l.sampled_at is not null
      order by l.at desc limit 1
    ) last
    cross join unnest(${[...names]}::text[]) as requested(of_name)
    cross join lateral (
      select * from job_rollups r
      where r.resolution = 60 and r.queue = ${queue} and r.name = requested.of_name and r.at = last.last_at
        and r.sampled_at = last.last_sampled_at
    ) r`
  return new Map(rows.map((row) => [row.name, row]))
}
