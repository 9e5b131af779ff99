// Reads suppressions that are not deleted. Addresses are sealed.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findByKeys, type KeyedResource, type KeyOnRoute } from '../idempotency.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { suppressionRowSchema, type Suppression } from './suppression.ts'

/** `addresses`: the hashes of one address, one per possible channel. */
export type SuppressionFilters = ListPage & {
  channel?: Suppression['channel']
  reason?: Suppression['reason']
  addresses?: string[]
}

/** A suppression's row: `sealed` is the sealed address. */
export type SuppressionRow = Omit<Suppression, 'address'> & { sealed: string }

/** The suppressions of a tenant, newest first. */
export async function listSuppressions(
  sql: Sql,
  tenant_id: string,
  { channel, reason, addresses, ...page }: SuppressionFilters,
): Promise<SuppressionRow[]> {
  // Only filters with an index change the statement's text, because each connection must plan every distinct text.
  return await sql<SuppressionRow[]>`
    select ${suppressionColumns(sql)} from suppressions
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)} and deleted_at is null
      and channel = coalesce(${channel ?? null}, channel) and reason = coalesce(${reason ?? null}, reason)
      ${addresses === undefined ? sql`` : sql`and address = any(${addresses}::text[])`}
    order by created_at desc limit ${page.limit}`
}

/** One suppression; undefined when there is none. */
export async function findSuppression(
  sql: Sql,
  tenant_id: string,
  id: string,
): Promise<SuppressionRow | undefined> {
  const [row] = await sql<SuppressionRow[]>`
    select ${suppressionColumns(sql)} from suppressions
    where tenant_id = ${tenant_id} and id = ${id} and deleted_at is null`
  return row
}

/**
 * The suppression that was created with this idempotency key, or undefined. If it was deleted later, `sealed` is
 * null.
 */
export async function findSuppressionByKey(
  sql: Sql,
  key: KeyOnRoute,
): Promise<KeyedResource<Omit<SuppressionRow, 'sealed'> & { sealed: string | null }> | undefined> {
  const columns = sql`${clearColumns(sql)}, case when deleted_at is null then sealed end as sealed`
  const [found] = await findByKeys<Omit<SuppressionRow, 'sealed'> & { sealed: string | null }>(
    sql,
    'suppression',
    columns,
    [key],
  )
  return found
}

/** The columns of a `SuppressionRow`. */
export function suppressionColumns(sql: Sql): Fragment {
  return sql`${clearColumns(sql)}, sealed`
}

function clearColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(suppressionRowSchema.shape))
}
