// The figures of the queues: what waits, how fast work comes and goes, and how long it waits and runs.
import { z } from 'zod'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { findPauses } from '../jobs/pauses.ts'
import { asOf, countField, lastSample, latestOf, openFields, openNow, sumRollups } from './figures.ts'
import { rollupColumns, type RollupFigures } from '../rollups/columns.ts'
import { percentilesSchema } from '../rollups/histograms.ts'

const MINUTES = 60

const rate = (description: string) => z.number().meta({ description, example: 12.5 })
const lately = z.object({ last_5m: percentilesSchema, last_1h: percentilesSchema })

const queueFiguresSchema = z.object({
  queue: z.enum(QUEUES).meta({ description: 'Its name.', example: 'payments' }),
  ...openFields,
  in_per_s_1m: rate('Jobs that came, each second since the last whole minute began.'),
  out_per_s_1m: rate('Jobs that finished.'),
  in_per_s_5m: rate('The same since the last five whole minutes began.'),
  out_per_s_5m: rate('Jobs that finished.'),
  wait: lately.meta({ description: 'From when a job was due to when its last attempt began.' }),
  run: lately.meta({ description: 'From when its last attempt began to when it finished.' }),
  failed_1h: countField('Jobs that failed or were discarded in the last hour.', 0),
  out_by_minute: z
    .array(z.int())
    .meta({ description: 'Jobs that finished in each of the last 60 minutes; the last is not over.' }),
  paused: z.boolean().meta({ description: 'Whether nothing of it begins.' }),
  paused_tenants: countField('Of how many tenants nothing of it begins.', 0),
  as_of: asOf,
})

export const queuesFiguresSchema = z
  .object({ queues: z.array(queueFiguresSchema), as_of: asOf })
  .meta({ id: 'QueuesFigures', description: 'Each queue with its figures.' })
export type QueuesFigures = z.output<typeof queuesFiguresSchema>

/** The figures of all queues. Rates and times are of the last whole minutes and of what is counted of this one. */
export async function findQueueFigures(sql: Sql): Promise<QueuesFigures> {
  const [rows, pauses] = await Promise.all([
    sql<RollupFigures[]>`
      select ${rollupColumns(sql)} from unnest(${[...QUEUES]}::text[]) as asked(of_queue)
      cross join lateral (
        select * from job_rollups r
        where r.resolution = 60 and r.queue = asked.of_queue and r.name = '' and r.at >= (
          select max(at) from job_rollups where resolution = 60) - ${MINUTES} * interval '1 minute'
      ) r
      order by at`,
    findPauses(sql),
  ])
  // Of the minute that is not over, what is counted so far: what just happened is seen at once.
  const end_ms = Date.parse(rows.at(-1)?.at ?? '')
  const counted_ms = Date.parse(latestOf(rows.map(({ sampled_at }) => sampled_at)) ?? '')
  const begun_s = Math.min(60, Math.max(0, (counted_ms - end_ms) / 1000)) || 0
  const queues = QUEUES.map((queue) => {
    const mine = rows.filter((row) => row.queue === queue)
    const of = (minutes: number) => mine.filter(({ at }) => Date.parse(at) >= end_ms - minutes * 60_000)
    const [minute, five, hour] = [sumRollups(of(1)), sumRollups(of(5)), sumRollups(of(MINUTES))]
    const out_by_minute = Array<number>(MINUTES).fill(0)
    for (const row of of(MINUTES - 1))
      out_by_minute[MINUTES - 1 - Math.round((end_ms - Date.parse(row.at)) / 60_000)] = sumRollups([row]).out
    const paused = pauses.filter((pause) => pause.queue === queue || pause.queue === null)
    return {
      queue,
      ...openNow(mine),
      in_per_s_1m: minute.in / (60 + begun_s),
      out_per_s_1m: minute.out / (60 + begun_s),
      in_per_s_5m: five.in / (300 + begun_s),
      out_per_s_5m: five.out / (300 + begun_s),
      wait: { last_5m: five.wait, last_1h: hour.wait },
      run: { last_5m: five.run, last_1h: hour.run },
      failed_1h: hour.failed + hour.discarded,
      out_by_minute,
      paused: paused.some(({ tenant }) => tenant === null),
      paused_tenants: new Set(paused.flatMap(({ tenant }) => tenant ?? [])).size,
      as_of: lastSample(mine)?.sampled_at ?? null,
    }
  })
  return { queues, as_of: latestOf(queues.map(({ as_of }) => as_of)) }
}
