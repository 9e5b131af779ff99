// The scopes of an audit: all rows, or some.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import {
  rootIdColumn,
  RESOURCE_NAMES,
  childrenOf,
  rootOf,
  resourceOf,
  type ResourceName,
} from '../resources.ts'
import type { AuditScope } from './checks.ts'

/** The key of a root row. */
export type RowKey = { tenant_id: string; resource_id: string }

/** All rows. */
export function fullScope(sql: Sql | Tx): AuditScope {
  const tables = new Map<string, string>(
    RESOURCE_NAMES.map((resource) => [resource, resourceOf(resource).table]),
  )
  return {
    rowsOf: (resource) => sql`${sql(tables.get(resource)!)}`,
    jobs: sql`all_jobs`,
    ledger_transfers: sql`ledger_transfers`,
    under_way: new Map(RESOURCE_NAMES.map((resource) => [resource, sql`${sql(resourceOf(resource).table)}`])),
    tenant_condition: sql`true`,
    resources: RESOURCE_NAMES.map((resource) => {
      const { table, at_provider, reserves, transfer_kinds = [] } = resourceOf(resource)
      return {
        resource,
        table,
        root: rootOf(resource),
        root_id_column: rootIdColumn(resource),
        reserves,
        transfer_kinds,
        ...at_provider,
      }
    }),
  }
}

/** All rows, but checks by tenant cover only this tenant. */
export function tenantScope(sql: Sql | Tx, tenant_id: string): AuditScope {
  return { ...fullScope(sql), tenant_condition: sql`tenant_id = ${tenant_id}` }
}

/** All rows, except that the rows in progress are limited to the source `rows` of one resource. */
export function inFlightScope(sql: Sql | Tx, resource: ResourceName, rows: Fragment): AuditScope {
  return { ...fullScope(sql), under_way: new Map([[resource, rows]]) }
}

/**
 * Only the rows of a root resource that have these keys. The planner does not know the number of keys and would plan
 * joins for a few rows. So here and in the checks, everything that belongs to the rows is looked up row by row
 * (`lateral`, `offset 0`).
 */
export function rowsScope(sql: Sql | Tx, root: ResourceName, keys: RowKey[]): AuditScope {
  const tenants = keys.map(({ tenant_id }) => tenant_id)
  const ids = keys.map(({ resource_id }) => resource_id)
  const of_parts = childrenOf(root)
    .map(
      ({ table, id_column }) => sql`
        union all
        select r.id from ${sql(table)} r where r.tenant_id = p.tenant_id and ${sql(`r.${id_column}`)} = p.id`,
    )
    .reduce((all, each) => sql`${all} ${each}`, sql``)
  const rows = sql`(
    select p.* from unnest(${tenants}::uuid[], ${ids}::uuid[]) as requested(tenant_id, id)
    cross join lateral (
      select p.* from ${sql(resourceOf(root).table)} p where p.tenant_id = requested.tenant_id
        and p.id = requested.id offset 0
    ) p)`
  return {
    ...fullScope(sql),
    rowsOf: () => rows,
    jobs: sql`(
      select j.* from ${rows} p
      cross join lateral (
        select j.* from all_jobs j where j.tenant_id = p.tenant_id and j.resource_id = p.id offset 0) j)`,
    ledger_transfers: sql`(
      select t.* from ${rows} p
      cross join lateral (select p.id as subject_id ${of_parts}) subject
      cross join lateral (
        select t.* from ledger_transfers t
        where t.tenant_id = p.tenant_id and t.subject_id = subject.subject_id offset 0) t)`,
  }
}
