// How current the roll-ups are: the time up to which workers have counted, and whether they still count.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'

/** The maximum age of a current count: workers count every ten seconds, and wait for open transactions. */
const MAX_LAG_S = 30

export const countedFields = {
  as_of: timestamp
    .nullable()
    .meta({ description: 'The time up to which everything is counted; null before the first count.' }),
  counting: z.enum(['current', 'behind', 'stopped']).meta({
    description:
      '`current`: jobs that finished up to 30 seconds ago are counted. `behind`: a worker is still counting them. `stopped`: no worker counts.',
    example: 'current',
  }),
}
type Counting = z.output<typeof countedFields.counting>

/** The time up to which finished jobs are counted, and the time of the last count of open jobs. */
type CountProgress = { finished: string | null; open: string | null; counting: Counting }

/** The progress of the counts, judged by the database's clock only. */
export async function findCountProgress(sql: Sql): Promise<CountProgress> {
  const [row] = await sql<CountProgress[]>`
    select position ->> 'after' as finished, position ->> 'sampled' as open,
      case when (position ->> 'after')::timestamptz > now() - ${MAX_LAG_S} * interval '1 second' then 'current'
        when lease_until > now() or ended_at > now() - ${MAX_LAG_S} * interval '1 second' then 'behind'
        else 'stopped' end as counting
    from recurring_work where name = 'roll-ups'`
  return row ?? { finished: null, open: null, counting: 'stopped' }
}
