// Pages of lists, by the time of creation.
import type { Fragment, Sql } from '#core/db.ts'

/** `created_from` is inclusive; `created_to` and `before`, the cursor, are exclusive. */
export type ListPage = { created_from?: string; created_to?: string; before?: string; limit: number }

/** The condition on `created_at` that limits rows to a page. */
export function createdWithin(
  sql: Sql,
  { created_from = '-infinity', created_to = 'infinity', before = 'infinity' }: Omit<ListPage, 'limit'>,
): Fragment {
  return sql`
    created_at >= ${created_from} and created_at < least(${created_to}::timestamptz, ${before}::timestamptz)`
}
