// The open jobs of each queue as of the last count for the roll-ups.
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'

/** A count older than this is outdated: no worker counts jobs. */
const MAX_AGE_MIN = 10

/** `waiting`: due or scheduled. `parked`: waiting for an operator. */
export type SampledJobs = { queue: string; waiting: number; running: number; parked: number }

/** Queues without a count in the last ten minutes are omitted. */
export async function findSampledJobs(sql: Sql): Promise<SampledJobs[]> {
  return await sql<SampledJobs[]>`
    select requested.queue, last.due + last.later as waiting, last.running, last.parked
    from unnest(${[...QUEUES]}::text[]) as requested(queue)
    cross join lateral (
      select * from job_rollups r
      where r.resolution = 60 and r.queue = requested.queue and r.name = '' and r.sampled_at is not null
        and r.at > now() - ${MAX_AGE_MIN} * interval '1 minute'
      order by r.at desc limit 1
    ) last`
}
