// Maintains the drifts of jobs whose call has an unknown effect.
import { unionAll, type Sql } from '#core/db.ts'
import {
  RESOURCE_NAMES,
  paymentOf,
  PROVIDER_RESOURCE_NAMES,
  providerResourceOf,
  callStatuses,
  resourceOf,
} from '../resources.ts'
import { sideOf } from './drift.ts'

/**
 * Synchronizes the drifts in state `unknown` with the jobs: opens a drift for each job with an unknown effect, and
 * closes the drift once the effect is known. (These jobs repeat their lookups by themselves.) A drift in state
 * `differs` does not change, because it may outlast the job.
 *
 * Returns the names of the jobs with an unknown effect that is visible neither in a drift nor in the status of a row. A
 * job has no drift if its resource is not compared with a provider.
 */
export async function syncUnknownDrifts(sql: Sql): Promise<string[]> {
  const ours = PROVIDER_RESOURCE_NAMES.map((resource) => {
    const { table, at_provider } = providerResourceOf(resource)
    return sql`
      select u.*, ${paymentOf(sql, resource, 'r')} as payment_id, ${sideOf(sql, 'r', at_provider.side)} as ours
      from unknown u join ${sql(table)} r on r.tenant_id = u.tenant_id and r.id = u.resource_id
      where u.resource = ${resource}`
  })
  // The jobs of a child row, such as a refund, have the id of its root row, such as the payment.
  const parent_ids = PROVIDER_RESOURCE_NAMES.flatMap((resource) => {
    const { table, parent } = providerResourceOf(resource)
    if (parent === undefined) return []
    return sql`
      select r.${sql(parent.id_column)} from ${sql(table)} r
      where d.subject = ${resource} and r.tenant_id = d.tenant_id and r.id = d.subject_id`
  })
  const showing_unknown = RESOURCE_NAMES.filter((resource) => callStatuses(resource).includes('unknown')).map(
    (resource) => sql`
      select from ${sql(resourceOf(resource).table)} r
      where unknown.resource = ${resource} and r.tenant_id = unknown.tenant_id and r.id = unknown.resource_id
        and r.status = 'unknown'`,
  )
  const rows = await sql<{ name: string }[]>`
    with unknown as (
      select distinct on (j.tenant_id, resource, resource_id) j.tenant_id, j.name, j.unknown_since as since,
        split_part(j.name, '.', 1) as resource,
        u.resource_id::uuid as resource_id,
        j.name || ': ' || (j.last_error ->> 'message') as detail
      from jobs j cross join lateral (select j.payload ->> (split_part(j.name, '.', 1) || '_id') as resource_id) u
      where j.finished_at is null and j.unknown_since is not null and j.resource_id is not null
        and pg_input_is_valid(u.resource_id, 'uuid')
      order by j.tenant_id, resource, resource_id, j.unknown_since
    ), resolved as (
      update drifts d set resolved_at = now()
      where d.resolved_at is null and d.state = 'unknown' and not exists (
        select from jobs j
        where j.tenant_id = d.tenant_id and j.resource_id = coalesce((${unionAll(sql, parent_ids)}), d.subject_id)
          and j.finished_at is null and j.unknown_since is not null
          and split_part(j.name, '.', 1) = d.subject and j.payload ->> (d.subject || '_id') = d.subject_id::text)
    ), ours as (${unionAll(sql, ours)}),
    opened as (
      insert into drifts as d (tenant_id, id, subject, subject_id, payment_id, state, ours, detail, since)
      select tenant_id, gen_random_uuid(), resource, resource_id, payment_id, 'unknown', ours, detail, since from ours
      on conflict (tenant_id, subject, subject_id) where resolved_at is null do update
        set state = 'unknown', ours = excluded.ours, detail = coalesce(excluded.detail, d.detail)
        where d.state <> 'differs'
          and (d.state, d.detail) is distinct from ('unknown', coalesce(excluded.detail, d.detail))
    )
    select distinct name from unknown
    where resource <> all(${[...PROVIDER_RESOURCE_NAMES]}::text[]) and not exists (${unionAll(sql, showing_unknown)})
      order by name`
  return rows.map(({ name }) => name)
}
