// The figures of the queues: waiting jobs, throughput, and the times that jobs wait and run.
import { z } from 'zod'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { findPauses } from '../jobs/pauses.ts'
import { findRetryingOfQueues } from '../jobs/retrying.ts'
import { countedFields, findCountProgress } from './counted.ts'
import { countField, openFields, openJobCounts, sumRollups } from './figures.ts'
import { findOldestDueAges } from './oldest-due.ts'
import { OUTAGE_EXAMPLE } from './outage-texts.ts'
import { findOutagesOfQueues } from './provider-outages.ts'
import { rollupColumns, type RollupFigures } from '../rollups/columns.ts'
import { percentilesSchema } from '../rollups/histograms.ts'

const MINUTES = 60

const rate = (description: string) => z.number().meta({ description, example: 12.5 })
const lately = z.object({ last_5m: percentilesSchema, last_1h: percentilesSchema })

const queueFiguresSchema = z.object({
  queue: z.enum(QUEUES).meta({ description: 'Its name.', example: 'payments' }),
  ...openFields,
  oldest_due_s: openFields.oldest_due_s.meta({
    description:
      'How long the oldest job has been due at this moment, in seconds, even while nothing is counted.',
  }),
  retrying: countField(
    'Open jobs whose last attempt failed, at this moment; at most 10,000 of each name.',
    0,
  ),
  oldest_retrying_s: countField(
    'How long the attempts of the oldest retrying job have failed, in seconds.',
    0,
  ),
  outages: z.array(z.string()).meta({
    description: 'The present outages of providers that its jobs call.',
    example: [OUTAGE_EXAMPLE],
  }),
  in_per_s_1m: rate('Created jobs per second since the last whole minute began.'),
  out_per_s_1m: rate('Finished jobs.'),
  in_per_s_5m: rate('Created jobs per second since the last five whole minutes began.'),
  out_per_s_5m: rate('Finished jobs.'),
  wait: lately.meta({ description: 'The time from when a job was due to the start of its last attempt.' }),
  run: lately.meta({ description: 'The duration of the last attempt.' }),
  failed_1h: countField('Jobs that failed or were discarded in the last hour.', 0),
  out_by_minute: z
    .array(z.int())
    .meta({ description: 'Finished jobs in each of the last 60 minutes; the last one is incomplete.' }),
  paused: z.boolean().meta({ description: 'Whether the queue is paused.' }),
  paused_tenants: countField('The number of tenants paused in it.', 0),
})

export const queuesFiguresSchema = z
  .object({ queues: z.array(queueFiguresSchema), ...countedFields })
  .meta({ id: 'QueuesFigures', description: 'Each queue with its figures.' })
export type QueuesFigures = z.output<typeof queuesFiguresSchema>

/**
 * The figures of all queues. Rates and times cover whole minutes and the counted part of the present minute. Finished
 * jobs are included up to the time that the count of finished jobs has reached, arrived jobs up to the last count of
 * open jobs.
 */
export async function findQueueFigures(sql: Sql): Promise<QueuesFigures> {
  const [counted, oldest, found, outages, pauses] = await Promise.all([
    findCountProgress(sql),
    findOldestDueAges(sql, QUEUES),
    findRetryingOfQueues(sql),
    findOutagesOfQueues(sql),
    findPauses(sql),
  ])
  const [finished, arrived] = [spanUpTo(counted.finished), spanUpTo(counted.open ?? counted.finished)]
  const rows = await sql<RollupFigures[]>`
    select ${rollupColumns(sql)} from unnest(${[...QUEUES]}::text[]) as requested(of_queue)
    cross join lateral (
      select * from job_rollups r
      where r.resolution = 60 and r.queue = requested.of_queue and r.name = ''
        and r.at >= ${new Date(Math.min(finished.end_ms, arrived.end_ms)).toISOString()}::timestamptz
          - ${MINUTES} * interval '1 minute'
    ) r
    order by at`
  const queues = QUEUES.map((queue) => {
    const queue_rows = rows.filter((row) => row.queue === queue)
    const since = ({ end_ms }: Span, minutes: number) =>
      sumRollups(queue_rows.filter(({ at }) => Date.parse(at) >= end_ms - minutes * 60_000))
    const [five, hour] = [since(finished, 5), since(finished, MINUTES)]
    const perSecond = (span: Span, minutes: number, of: 'in' | 'out') =>
      since(span, minutes)[of] / (minutes * 60 + span.begun_s)
    const out_by_minute = Array<number>(MINUTES).fill(0)
    for (const row of queue_rows) {
      const ago = Math.round((finished.end_ms - Date.parse(row.at)) / 60_000)
      if (ago >= 0 && ago < MINUTES) out_by_minute[MINUTES - 1 - ago] = sumRollups([row]).out
    }
    const { retrying = 0, oldest_s = 0 } = found.get(queue) ?? {}
    const paused = pauses.filter((pause) => pause.queue === queue || pause.queue === null)
    return {
      queue,
      ...openJobCounts(queue_rows.findLast(({ sampled_at }) => sampled_at !== null)),
      oldest_due_s: oldest.get(queue) ?? 0,
      retrying,
      oldest_retrying_s: oldest_s,
      outages: outages.get(queue) ?? [],
      in_per_s_1m: perSecond(arrived, 1, 'in'),
      out_per_s_1m: perSecond(finished, 1, 'out'),
      in_per_s_5m: perSecond(arrived, 5, 'in'),
      out_per_s_5m: perSecond(finished, 5, 'out'),
      wait: { last_5m: five.wait, last_1h: hour.wait },
      run: { last_5m: five.run, last_1h: hour.run },
      failed_1h: hour.failed + hour.discarded,
      out_by_minute,
      paused: paused.some(({ tenant }) => tenant === null),
      paused_tenants: new Set(paused.flatMap(({ tenant }) => tenant ?? [])).size,
    }
  })
  return { queues, as_of: counted.open, counting: counted.counting }
}

/** A time, split into the end of the last whole minute (`end_ms`) and the seconds since then (`begun_s`). */
type Span = { end_ms: number; begun_s: number }

function spanUpTo(time: string | null): Span {
  const ms = time === null ? 0 : Date.parse(time)
  const end_ms = Math.floor(ms / 60_000) * 60_000
  return { end_ms, begun_s: (ms - end_ms) / 1000 }
}
