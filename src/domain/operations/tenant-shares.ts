// The tenants whose jobs occupy the queues.
import { z } from 'zod'
import type { QueueName } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { countedFields, findCountProgress } from './counted.ts'
import { countField, figureWindow, spanOf, type FigureWindow } from './figures.ts'

const MAX_TENANTS = 50

export const tenantSharesSchema = z
  .object({
    window: figureWindow,
    finished: countField('Finished jobs.', 1200),
    run_ms: countField('The total duration of their last attempts.', 96_000),
    tenants: z.array(
      z.object({
        tenant_id: z.uuid().nullable().meta({
          description: 'The tenant; null: all others.',
          example: '0198f6ef-9a00-7000-8000-00000000ac3e',
        }),
        slug: z.string().nullable().meta({ description: 'The slug of the tenant.', example: 'acme' }),
        finished: countField('Jobs of this tenant that finished.', 300),
        run_ms: countField('The total duration of their last attempts.', 24_000),
        share: z.number().meta({ description: 'The fraction of all finished jobs.', example: 0.25 }),
      }),
    ),
    ...countedFields,
  })
  .meta({ id: 'TenantShares', description: 'The finished jobs by tenant, the busiest first.' })
export type TenantShares = z.output<typeof tenantSharesSchema>

/**
 * The tenants with the most finished jobs in the window, in one queue or in all. Each minute has rows only for its
 * busiest tenants; the jobs of all other tenants are one total. So the jobs of a small tenant may be missing from its
 * figures and be part of the total. Windows of more than an hour begin with a whole hour.
 */
export async function findTenantShares(
  sql: Sql,
  { queue, window }: { queue?: QueueName; window: FigureWindow },
): Promise<TenantShares> {
  const { span_s, resolution } = spanOf(window)
  const of_queue = sql`r.queue = coalesce(${queue ?? null}, r.queue)`
  const rows = await sql<{ tenant_id: string; slug: string | null; finished: number; run_ms: number }[]>`
    with summed as (
      select tenant_id, sum(finished)::bigint as finished, sum(run_ms)::bigint as run_ms from (
        select tenant_id, finished, run_ms from tenant_rollups r
        where r.resolution = 3600 and ${resolution}::integer = 3600
          and r.at >= date_trunc('hour', now() - ${span_s} * interval '1 second') and ${of_queue}
        union all
        -- The minutes after the last hour that has a sum, or the minutes of a short window.
        select tenant_id, finished, run_ms from tenant_rollups r
        where r.resolution = 60 and ${of_queue} and r.at >= case when ${resolution}::integer = 60
          then now() - ${span_s} * interval '1 second'
          else coalesce(
            (select max(at) from tenant_rollups where resolution = 3600) + interval '1 hour', '-infinity') end
      ) r
      group by tenant_id
    )
    select s.*, t.slug from summed s left join tenants t on t.id = s.tenant_id
    order by s.finished desc, s.tenant_id`
  const { finished, counting } = await findCountProgress(sql)
  const total = sumOf(rows)
  const named = rows.filter(({ tenant_id }) => tenant_id !== LOWEST_ID)
  const others = sumOf([
    ...rows.filter(({ tenant_id }) => tenant_id === LOWEST_ID),
    ...named.slice(MAX_TENANTS),
  ])
  const share = (finished: number) => (total.finished === 0 ? 0 : finished / total.finished)
  const tenants: TenantShares['tenants'] = named
    .slice(0, MAX_TENANTS)
    .map((row) => ({ ...row, share: share(row.finished) }))
  if (others.finished > 0)
    tenants.push({ tenant_id: null, slug: null, ...others, share: share(others.finished) })
  return { window, ...total, tenants, as_of: finished, counting }
}

function sumOf(rows: { finished: number; run_ms: number }[]): { finished: number; run_ms: number } {
  return {
    finished: rows.reduce((sum, row) => sum + row.finished, 0),
    run_ms: rows.reduce((sum, row) => sum + row.run_ms, 0),
  }
}
