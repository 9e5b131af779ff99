// The figures of each kind of job in a queue.
import { z } from 'zod'
import type { QueueName } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import {
  asOf,
  countField,
  lastSample,
  latestOf,
  openFields,
  openNow,
  spanOf,
  sumRollups,
  type FigureWindow,
} from './figures.ts'
import { NOTHING_COUNTED, rollupColumns, type RollupFigures } from '../rollups/columns.ts'
import { percentilesSchema } from '../rollups/histograms.ts'

export const nameFiguresSchema = z
  .object({
    names: z.array(
      z.object({
        name: z.string().meta({ description: 'The name of the job.', example: 'payment.capture' }),
        in: countField('Jobs that came.'),
        out: countField('Jobs that finished.'),
        succeeded: countField('Of these, those that succeeded.'),
        failed: countField('Those that failed.', 0),
        discarded: countField('Those that were ended without being done.', 0),
        retries: countField('Attempts beyond the first.', 0),
        wait: percentilesSchema.meta({ description: 'From when a job was due to its last attempt.' }),
        run: percentilesSchema.meta({ description: 'From the beginning of that to its end.' }),
        ...openFields,
      }),
    ),
    as_of: asOf,
  })
  .meta({ id: 'JobNameFigures', description: 'Each kind of job of a queue with its figures.' })
export type NameFigures = z.output<typeof nameFiguresSchema>

/** The kinds of jobs of a queue that were seen in the window, the busiest first. Windows of over an hour are of whole hours. */
export async function findNameFigures(
  sql: Sql,
  { queue, window }: { queue: QueueName; window: FigureWindow },
): Promise<NameFigures> {
  const by_name = Map.groupBy(await findRollups(sql, { queue, names: JOB_NAMES, window }), ({ name }) => name)
  const names = Array.from(by_name, ([name, rows]) => {
    const { declined: _, ...sum } = sumRollups(rows)
    return { name, ...sum, ...openNow(rows) }
  })
  const sampled = Array.from(by_name.values(), (rows) => lastSample(rows)?.sampled_at)
  return {
    names: names.toSorted((a, b) => b.out - a.out || (a.name < b.name ? -1 : 1)),
    as_of: latestOf(sampled),
  }
}

/**
 * The roll-ups of these names within the window, in the order of time; then the latest minute of each, without what finished
 * in it where the others are hours, for what is open now.
 */
export async function findRollups(
  sql: Sql,
  { queue, names, window }: { queue: string; names: readonly string[]; window: FigureWindow },
): Promise<RollupFigures[]> {
  const { span_s, resolution } = spanOf(window)
  const rows = await sql<(RollupFigures & { resolution: number })[]>`
    select resolution, ${rollupColumns(sql)} from unnest(${[...names]}::text[]) as asked(of_name)
    cross join lateral (
      select * from job_rollups r
      where r.resolution = ${resolution} and r.queue = ${queue} and r.name = asked.of_name
        and r.at >= now() - ${span_s} * interval '1 second'
      union all
      select * from (
        select * from job_rollups r
        where r.resolution = 60 and r.queue = ${queue} and r.name = asked.of_name and r.sampled_at is not null
          and r.at >= now() - interval '1 hour' and ${resolution}::integer <> 60
        order by r.at desc limit 1
      ) latest
    ) r
    order by resolution desc, at`
  const none = { ...NOTHING_COUNTED, wait: [], run: [] }
  return rows.map(({ resolution: of_row, ...row }) => (of_row === resolution ? row : { ...row, ...none }))
}
