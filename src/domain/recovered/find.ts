// Finds the rows that were made again since the last switch of the database.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { RESOURCE_NAMES, resourceOf } from '../resources.ts'
import { mayHaveLost } from '../switches/losses.ts'

const LATEST = 10
/** Of each tenant and resource, at most so many rows are counted. */
const MAX_COUNTED = 10_000

export const recoveredRowsSchema = z.object({
  counts: z.array(z.object({ resource: z.string(), rows: z.int() })).meta({
    description: `The number of rows by resource; of each tenant at most ${MAX_COUNTED}.`,
  }),
  latest: z.array(
    z.object({
      resource: z.string(),
      resource_id: z.uuid(),
      /** The resource under which its jobs are found: the payment of a refund. */
      subject_id: z.uuid(),
      tenant: z.string(),
      recovered_at: timestamp,
    }),
  ),
})
type RecoveredRows = z.output<typeof recoveredRowsSchema>
type RecoveredRow = RecoveredRows['latest'][number]

/** The rows of live tenants that were made again since the last switch that can have lost any, by their events. */
export async function findRecoveredRows(sql: Sql): Promise<RecoveredRows> {
  const resources = RESOURCE_NAMES.filter((name) => 'recovered' in resourceOf(name).events)
  const rows = await sql<(RecoveredRow & { rows: number })[]>`
    with switch as materialized (
      select s.switched_at from database_switches s where ${mayHaveLost(sql)} order by s.number desc limit 1
    ), found as (
      select wanted.resource, t.id as tenant_id, t.slug as tenant, f.event_id, f.sequence,
        f.created_at as recovered_at
      from switch cross join tenants t cross join unnest(${resources}::text[]) as wanted (resource)
        cross join lateral (
          select f.event_id, f.sequence, f.created_at from feed_entries f
          where f.tenant_id = t.id and f.type = wanted.resource || '.recovered'
            and f.created_at >= switch.switched_at
          order by f.sequence desc limit ${MAX_COUNTED}) f
      where t.mode = 'live'
    )
    select f.resource, f.rows, e.subject_id, f.tenant, f.recovered_at,
      coalesce(e.data ->> 'id', e.subject_id::text) as resource_id
    from (
      select *, count(*) over (partition by resource)::integer as rows,
        row_number() over (partition by resource order by recovered_at desc, sequence desc) as nth from found) f
    left join events e on e.tenant_id = f.tenant_id and e.id = f.event_id and e.created_at = f.recovered_at
    where f.nth <= ${LATEST} order by f.recovered_at desc, f.sequence desc`
  const counts = new Map(rows.map(({ resource, rows: counted }) => [resource, counted]))
  return {
    counts: Array.from(counts, ([resource, counted]) => ({ resource, rows: counted })),
    latest: rows.slice(0, LATEST),
  }
}
