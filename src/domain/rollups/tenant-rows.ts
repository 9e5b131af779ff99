// The roll-ups by tenant: for each minute and hour the tenants with the most jobs, and a total of the others.
import type { Fragment, Tx } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'

/** The maximum numbers of tenants that have a row of their own for a queue, per minute and per hour. */
const MAX_PER_MINUTE = 20
const MAX_PER_HOUR = 50

/**
 * The parts of a statement that add the jobs of `picked` to the per-minute rows of their tenants. Tenants with a row
 * keep it; the others get one in the order of their job counts, up to the limit.
 */
export function addingTenants(tx: Tx): Fragment {
  return tx`
    share as (
      select date_trunc('minute', finished_at) as at, queue, tenant_id, count(*) as finished,
        coalesce(sum(run_ms), 0)::bigint as run_ms
      from picked group by 1, 2, 3
    ), minute_of as materialized (
      select at, queue, coalesce(array_agg(t.tenant_id), '{}') as tenants
      from (select distinct at, queue from share) s
      cross join lateral (
        select t.tenant_id from tenant_rollups t
        where t.resolution = 60 and t.queue = s.queue and t.at = s.at and t.tenant_id <> ${LOWEST_ID}
      ) t
      group by at, queue
    ), ranked as (
      select s.*, coalesce(s.tenant_id = any(m.tenants), false) as has_row, coalesce(cardinality(m.tenants), 0) as rows,
        row_number() over (
          partition by s.at, s.queue, coalesce(s.tenant_id = any(m.tenants), false)
          order by s.finished desc, s.tenant_id) as nth
      from share s left join minute_of m on m.at = s.at and m.queue = s.queue
    ), added as (
      insert into tenant_rollups as r (resolution, at, queue, tenant_id, finished, run_ms)
      select 60, at, queue, case when has_row or rows + nth <= ${MAX_PER_MINUTE} then tenant_id else ${LOWEST_ID} end,
        sum(finished)::integer, sum(run_ms)::bigint
      from ranked group by 1, 2, 3, 4 order by 1, 3, 2, 4
      on conflict (resolution, queue, at, tenant_id)
        do update set finished = r.finished + excluded.finished, run_ms = r.run_ms + excluded.run_ms
    )`
}

/** For the hours that ended between two count positions, sums the per-minute rows of tenants into rows per hour. */
export async function closeTenantHours(tx: Tx, from: string, to: string): Promise<void> {
  if (from.slice(0, 13) === to.slice(0, 13)) return
  await tx`
    insert into tenant_rollups (resolution, at, queue, tenant_id, finished, run_ms)
    select 3600, at, queue, case when nth <= ${MAX_PER_HOUR} then tenant_id else ${LOWEST_ID} end,
      sum(finished)::integer, sum(run_ms)::bigint
    from (
      select date_trunc('hour', at) as at, queue, tenant_id, sum(finished) as finished, sum(run_ms) as run_ms,
        row_number() over (
          partition by date_trunc('hour', at), queue
          order by tenant_id = ${LOWEST_ID}, sum(finished) desc, tenant_id) as nth
      from tenant_rollups
      where resolution = 60 and at >= date_trunc('hour', ${from}::timestamptz)
        and at < date_trunc('hour', ${to}::timestamptz)
      group by 1, 2, 3
    ) t
    group by 2, 3, 4
    on conflict (resolution, queue, at, tenant_id)
      do update set finished = excluded.finished, run_ms = excluded.run_ms`
}
