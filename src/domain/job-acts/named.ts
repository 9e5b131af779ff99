// Finds the jobs that a search text names: by an id, or by a reference of a provider or client.
import { z } from 'zod'
import { unionAll, type Fragment, type Tx } from '#core/db.ts'
import { rootIdColumn, PROVIDER_RESOURCE_NAMES, providerResourceOf } from '../resources.ts'

/** A condition on the named jobs `j`. */
export type NamedJobs = (sql: Tx) => Fragment

/**
 * The maximum number of rows that a search text names; further rows are ignored. Many tenants may use the same
 * idempotency key.
 */
const MAX_NAMED_ROWS = 50
const PROVIDER_KEY = /^([0-9a-f-]{36}):\d+$/

/**
 * The jobs that `text` names: by job id, by the key of the provider call, by the id of their row, by the provider's
 * reference of that row or of a child row, or by an idempotency key. With `resource_id`: the jobs of that row.
 * Undefined if the text names nothing.
 */
export async function findNamedJobs(
  sql: Tx,
  requested: { text: string | undefined; resource_id: string | undefined; tenant_id: string | undefined },
): Promise<NamedJobs | undefined> {
  const { text, resource_id } = requested
  const tenant_id = requested.tenant_id ?? null
  // The indexes begin with the tenant, which the operator may not know: every tenant is tried.
  const tenants = sql`tenants t where (${tenant_id}::uuid is null or t.id = ${tenant_id})`
  if (resource_id !== undefined) {
    const rows = await findRowsWithJobs(sql, tenants, resource_id)
    return rows.length === 0 ? NO_JOBS : jobsNamed([], rows)
  }
  if (text === undefined) return undefined
  const lower = text.toLowerCase()
  const id = PROVIDER_KEY.exec(lower)?.[1] ?? lower
  if (z.uuid().safeParse(id).success) {
    const [job] = await sql`
      select from jobs where id = ${id} union all select from job_history where id = ${id} limit 1`
    if (job !== undefined) return jobsNamed([id], [])
    const rows = await findRowsWithJobs(sql, tenants, id)
    if (rows.length > 0) return jobsNamed([], rows)
  }
  const referenced = PROVIDER_RESOURCE_NAMES.map((resource) => {
    const { table, at_provider } = providerResourceOf(resource)
    return sql`
      select r.tenant_id, ${sql(`r.${rootIdColumn(resource)}`)} as resource_id, null::uuid as job_id
      from ${sql(table)} r where ${sql(`r.${at_provider.reference}`)} = ${text}`
  })
  const rows = await sql<{ tenant_id: string; resource_id: string; job_id: string | null }[]>`
    select distinct * from (
      ${unionAll(sql, referenced)}
      union all
      select k.tenant_id, k.resource_id, k.job_id from (select t.id as tenant_id from ${tenants}) t
      join idempotency_keys k on k.tenant_id = t.tenant_id and k.key = ${text}
    ) r limit ${MAX_NAMED_ROWS}`
  if (rows.length === 0) return undefined
  return jobsNamed(
    rows.flatMap(({ job_id }) => job_id ?? []),
    rows,
  )
}

type RowReference = { tenant_id: string; resource_id: string }

/** Matches no job. */
const NO_JOBS: NamedJobs = (sql) => sql`false`

function jobsNamed(ids: string[], rows: RowReference[]): NamedJobs {
  return (sql) =>
    rows.reduce(
      (all, row) => sql`${all} or (j.tenant_id = ${row.tenant_id} and j.resource_id = ${row.resource_id})`,
      sql`j.id = any(${ids}::uuid[])`,
    )
}

async function findRowsWithJobs(sql: Tx, tenants: Fragment, resource_id: string): Promise<RowReference[]> {
  return await sql<RowReference[]>`
    select t.tenant_id, ${resource_id} as resource_id from (select t.id as tenant_id from ${tenants}) t
    where exists (select from jobs j where j.tenant_id = t.tenant_id and j.resource_id = ${resource_id})
      or exists (select from job_history j where j.tenant_id = t.tenant_id and j.resource_id = ${resource_id})
    limit ${MAX_NAMED_ROWS}`
}
