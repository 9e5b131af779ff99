// Finds deliveries by id in the statements that update them.
import type { Fragment, Sql, Tx } from '#core/db.ts'

/**
 * Whether `webhook_deliveries d` has this tenant and id. Every statement that updates deliveries uses it, without the
 * `created_at` of another row, which would select the partition: PostgreSQL 18 before its commit 1b5dd3a can crash if a
 * statement selects partitions while it runs and has waited for a row that another transaction changed.
 */
export function hasDeliveryId(sql: Sql | Tx, tenant_id: Fragment, id: Fragment): Fragment {
  return sql`d.tenant_id = ${tenant_id} and d.id = ${id}`
}

const WEEK_MS = 7 * 24 * 3600 * 1000
/** The first Monday after the epoch, a Thursday. */
const FIRST_MONDAY_MS = 4 * 24 * 3600 * 1000

/**
 * Whether `webhook_deliveries d` was created in the weeks of these times. The weeks are literals in the text of the
 * statement: so PostgreSQL selects the partitions, which are weeks, when it plans the statement and not while it runs.
 */
export function isCreatedInWeeksOf(sql: Sql | Tx, times: string[]): Fragment {
  const weeks = times.map((time) => Math.floor((Date.parse(time) - FIRST_MONDAY_MS) / WEEK_MS))
  const mondayOf = (week: number) => new Date(FIRST_MONDAY_MS + week * WEEK_MS).toISOString()
  const [from, until] = [mondayOf(Math.min(...weeks)), mondayOf(Math.max(...weeks) + 1)]
  return sql`${sql.unsafe(`d.created_at >= '${from}' and d.created_at < '${until}'`)}`
}
