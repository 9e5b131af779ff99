// The columns of jobs in lists, filters and pages of operators.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { tenantNameColumn } from '../tenant-names.ts'

/**
 * The columns of a job that lists (`listedColumns`), filters and the page of a single job need: from the job `j`, or
 * from its row in the history.
 */
export function jobColumns(sql: Sql | Tx): Fragment {
  return sql`
    j.id, j.tenant_id, j.queue, j.name, j.state, j.run_at, j.resource_id, j.payload, j.attempt, j.max_attempts,
    j.unknown_since, j.failing_since, j.last_error, j.first_sent_at, j.created_at, j.started_at, j.finished_at,
    j.request_id, j.provider_reference`
}

/** The text of an error. For emails and SMS it includes the provider's code and text (separate fields in the API). */
export function jobErrorMessage(sql: Sql | Tx, error: 'error' | 'j.last_error'): Fragment {
  return sql`(${sql(error)} ->> 'message') || coalesce(' (' || nullif(concat_ws(' ',
    ${sql(error)} ->> 'provider_code', ${sql(error)} ->> 'provider_message'), '') || ')', '')`
}

/** The columns in lists of the job `j` of the tenant `t`. */
export function listedColumns(sql: Sql | Tx): Fragment {
  return sql`
    j.id, ${tenantNameColumn(sql)} as tenant, j.tenant_id, j.queue, j.name, j.state, j.run_at = 'infinity' as parked,
    j.state in ('ready', 'unknown') and j.finished_at is null and j.run_at < 'infinity' and exists (
      select from only pauses u
      where (u.queue is null or u.queue = j.queue) and (u.tenant_id is null or u.tenant_id = j.tenant_id)
    ) as paused, (
      select a.act from operator_acts a
      where a.finished_at is null and (a.job_id = j.id or exists (
        select from operator_act_items i where i.act_id = a.id and i.job_id = j.id and i.at is null))
      order by a.created_at limit 1
    ) as acting, j.resource_id,
    j.attempt, nullif(j.run_at, 'infinity') as run_at, j.unknown_since, j.failing_since,
    ${jobErrorMessage(sql, 'j.last_error')} as error, j.first_sent_at, j.created_at, j.started_at, j.finished_at`
}
