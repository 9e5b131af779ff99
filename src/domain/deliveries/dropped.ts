// The status of unsent deliveries.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/** The status that a delivery to the endpoint `p` gets instead of being sent; null while the endpoint is enabled. */
export function droppedAs(sql: Sql | Tx): Fragment {
  return sql`
    case when p.deleted_at is not null or p.disabled_reason = 'manual' then 'skipped'
      when p.status = 'disabled' then 'failed' end`
}
