// Recognizes redundant notifications: a reported status that our row already has needs no job and no lookup.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { rootIdColumn, PROVIDER_RESOURCE_NAMES, providerResourceOf, rootOf } from '../resources.ts'

/**
 * A part of a statement: `judged` adds columns to `arrived`, a query for notifications whose column `reported` has a
 * provider's `ReportedStatus`. `tenant_id, resource, resource_id`: the root row of our row, such as the payment of a
 * refund. `is_redundant`: our row already has the reported status. `in_progress`: the first attempt of a job is working
 * on the root row and will probably settle the same status.
 *
 * No row is locked: a row only moves forward, so a status that is redundant stays redundant. Only the statuses that a
 * resource lists are compared. Everything else needs a lookup: other amounts, a row with an open drift, a row without
 * the provider's id.
 */
export function judgingRedundancy(sql: Sql | Tx, arrived: Fragment): Fragment {
  const rows = PROVIDER_RESOURCE_NAMES.flatMap((resource) => {
    const { table, at_provider } = providerResourceOf(resource)
    if (at_provider.isRedundant === undefined) return []
    const root = rootOf(resource)
    const root_id = sql`r.${sql(rootIdColumn(resource))}`
    return sql`
      select r.tenant_id, ${root} as resource, ${root_id} as resource_id,
        (${at_provider.isRedundant(sql)}) and not exists (
          select from drifts d
          where d.tenant_id = r.tenant_id and d.resolved_at is null
            and (d.subject = ${resource} and d.subject_id = r.id
              or d.subject = ${root} and d.subject_id = ${root_id})
        ) as is_redundant
      from ${sql(table)} r
      where reported.resource = ${resource} and r.${sql(at_provider.provider)} = arrived.provider
        and r.${sql(at_provider.reference)} = reported.reference`
  })
  return sql`
    judged as (
      select arrived.*, matched.tenant_id, matched.resource, matched.resource_id,
        coalesce(matched.is_redundant, false) as is_redundant,
        not coalesce(matched.is_redundant, false) and exists (
          select from jobs j
          where j.tenant_id = coalesce(matched.tenant_id, reported.tenant_id)
            and j.resource_id = coalesce(matched.resource_id, reported.root_id)
            and j.state = 'running' and j.attempt = 1 and not j.in_doubt offset 0
        ) as in_progress
      from (${arrived}) arrived
      cross join lateral jsonb_to_record(coalesce(arrived.reported, '{}')) as reported(
        resource text, reference text, status text, amount_minor bigint, currency text, status_amount_minor bigint,
          reason text,
        tenant_id uuid, root_id uuid)
      left join lateral (${unionAll(sql, rows)} offset 0) matched on true
    )`
}
