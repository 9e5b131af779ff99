// Up to when workers have counted jobs, and whether they still do: what every figure of the roll-ups is worth.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'

/** Workers count every ten seconds, and wait for transactions that take longer. */
const MAX_LAG_S = 30

export const countedFields = {
  as_of: timestamp
    .nullable()
    .meta({ description: 'Up to when the numbers hold; null before the first count.' }),
  counting: z.enum(['current', 'behind', 'stopped']).meta({
    description:
      '`current`: what finished up to 30 seconds ago is counted. `behind`: not yet, and a worker goes on counting. `stopped`: no worker counts.',
    example: 'current',
  }),
}
type Counting = z.output<typeof countedFields.counting>

/** Up to when finished jobs are counted, and as of when the open ones were. */
type CountProgress = { finished: string | null; open: string | null; counting: Counting }

/** By the clock of the database, however wrong others are. */
export async function findCountProgress(sql: Sql): Promise<CountProgress> {
  const [row] = await sql<CountProgress[]>`
    select position ->> 'after' as finished, position ->> 'sampled' as open,
      case when (position ->> 'after')::timestamptz > now() - ${MAX_LAG_S} * interval '1 second' then 'current'
        when lease_until > now() or ended_at > now() - ${MAX_LAG_S} * interval '1 second' then 'behind'
        else 'stopped' end as counting
    from recurring_work where name = 'roll-ups'`
  return row ?? { finished: null, open: null, counting: 'stopped' }
}
