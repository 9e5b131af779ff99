// The scopes of an audit: every row, or only some.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { filedBy, NOUNS, partsOf, rootOf, subjectOf, type Noun } from '../subjects.ts'
import type { AuditScope } from './checks.ts'

/** A row that is filed under no other. */
export type RowKey = { tenant_id: string; subject_id: string }

/** Every row. */
export function everything(sql: Sql | Tx): AuditScope {
  const tables = new Map<string, string>(NOUNS.map((noun) => [noun, subjectOf(noun).table]))
  return {
    rowsOf: (noun) => sql`${sql(tables.get(noun)!)}`,
    jobs: sql`all_jobs`,
    ledger_transfers: sql`ledger_transfers`,
    under_way: new Map(NOUNS.map((noun) => [noun, sql`${sql(subjectOf(noun).table)}`])),
    whose: sql`true`,
    subjects: NOUNS.map((noun) => {
      const { table, at_provider, reserves, posts = [] } = subjectOf(noun)
      return { noun, table, root: rootOf(noun), filed_by: filedBy(noun), reserves, posts, ...at_provider }
    }),
  }
}

/** Everything, but of what is checked by tenant only what is of this one. */
export function ofTenant(sql: Sql | Tx, tenant_id: string): AuditScope {
  return { ...everything(sql), whose: sql`tenant_id = ${tenant_id}` }
}

/** Everything, but of the rows under way only these, of one noun. */
export function underWay(sql: Sql | Tx, noun: Noun, rows: Fragment): AuditScope {
  return { ...everything(sql), under_way: new Map([[noun, rows]]) }
}

/**
 * Only these rows of a noun that is no part of another. The planner does not know how many there are and would plan a
 * join for a handful, so everything that belongs to them is looked up row by row (`lateral`, `offset 0`), here and in
 * the checks.
 */
export function ofRows(sql: Sql | Tx, root: Noun, keys: RowKey[]): AuditScope {
  const tenants = keys.map(({ tenant_id }) => tenant_id)
  const ids = keys.map(({ subject_id }) => subject_id)
  const of_parts = partsOf(root)
    .map(
      ({ table, by }) => sql`
        union all
        select r.id from ${sql(table)} r where r.tenant_id = p.tenant_id and ${sql(`r.${by}`)} = p.id`,
    )
    .reduce((all, each) => sql`${all} ${each}`, sql``)
  const rows = sql`(
    select p.* from unnest(${tenants}::uuid[], ${ids}::uuid[]) as asked(tenant_id, id)
    cross join lateral (
      select p.* from ${sql(subjectOf(root).table)} p where p.tenant_id = asked.tenant_id and p.id = asked.id offset 0
    ) p)`
  return {
    ...everything(sql),
    rowsOf: () => rows,
    jobs: sql`(
      select j.* from ${rows} p
      cross join lateral (
        select j.* from all_jobs j where j.tenant_id = p.tenant_id and j.subject_id = p.id offset 0) j)`,
    ledger_transfers: sql`(
      select t.* from ${rows} p
      cross join lateral (select p.id as subject_id ${of_parts}) subject
      cross join lateral (
        select t.* from ledger_transfers t
        where t.tenant_id = p.tenant_id and t.subject_id = subject.subject_id offset 0) t)`,
  }
}
