// Finds deliveries by id in the statements that update them.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * Whether `webhook_deliveries d` has this tenant and id. Every statement that updates deliveries uses it, without a
 * condition on `created_at`, which would select the partition: PostgreSQL 18 before its commit 1b5dd3a can crash if a
 * statement selects partitions while it runs and has waited for a row that another transaction changed.
 */
export function hasDeliveryId(sql: Sql | Tx, tenant_id: Fragment, id: Fragment): Fragment {
  return sql`d.tenant_id = ${tenant_id} and d.id = ${id}`
}
