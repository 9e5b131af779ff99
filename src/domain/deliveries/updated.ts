// Selects the deliveries that a statement updates.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * Whether `webhook_deliveries d` is the delivery with this key; for statements that update deliveries. The creation
 * time is left out although the condition alone would select the partition: PostgreSQL 18 without its commit 1b5dd3a
 * crashes if a statement that selects partitions while it runs has also waited for a row that another transaction
 * changed.
 */
export function isUpdatedDelivery(sql: Sql | Tx, tenant_id: Fragment, id: Fragment): Fragment {
  return sql`d.tenant_id = ${tenant_id} and d.id = ${id}`
}
