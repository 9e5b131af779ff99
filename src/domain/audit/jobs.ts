// Checks of jobs: a finished job sent its call, and a due job is claimed.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { CALLS } from '#jobs/index.ts'
import { claimableSince } from '../switches/holds.ts'
import { rootResourceOf, noFigures, noResource, type AuditScope, type Limits } from './checks.ts'

/** Jobs that may succeed without their call. */
const DISPENSABLE_JOBS = CALLS.filter(({ dispensable }) => dispensable === true).map(({ job }) => job)

/** Every job that succeeded has sent its provider call. */
export function calls(sql: Sql | Tx, { jobs, resources }: AuditScope): Fragment {
  const resource = rootResourceOf(sql, resources, sql`split_part(j.name, '.', 1)`)
  return sql`
    select 'a job succeeded without its provider call' as problem, j.tenant_id,
      case when j.resource_id is not null then ${resource} end as resource, j.resource_id,
      j.id::text as id, j.operation as what, ${noFigures(sql)}
    from ${jobs} j where j.state = 'succeeded' and j.operation is not null and j.first_sent_at is null
      and j.name <> all(${DISPENSABLE_JOBS}::text[])`
}

/** Every open job is claimed soon after it becomes claimable, unless it is paused. */
export function jobs(sql: Sql | Tx, _scope: AuditScope, { stuck_after_s }: Limits): Fragment {
  return sql`
    select 'a due job is not claimed' as problem, j.tenant_id, ${noResource(sql)}, j.id::text as id,
      j.name || ' ' || j.state || ' since ' || coalesce(j.lease_until, j.run_at) as what, ${noFigures(sql)}
    from jobs j
    where j.finished_at is null and ${claimableSince(sql)} < now() - ${stuck_after_s} * interval '1 second'
      and not exists (
        select from only pauses p
        where (p.queue is null or p.queue = j.queue) and (p.tenant_id is null or p.tenant_id = j.tenant_id))`
}
