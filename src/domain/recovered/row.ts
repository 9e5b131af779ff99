// Makes rows again that were lost when the database went back in time.
import { violatedConstraint, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { storingKeys } from '../idempotency.ts'
import type { ResourceName } from '../resources.ts'

/**
 * Runs the transaction `insert`, which makes a row again. If another worker or a repeated request has made the row
 * meanwhile, nothing is written, and the result is false.
 */
export async function makeRowAgain(sql: Sql, insert: (tx: Tx) => Promise<unknown>): Promise<boolean> {
  for (;;) {
    try {
      await sql.begin(insert)
      return true
    } catch (error) {
      const constraint = violatedConstraint(error)
      if (constraint === undefined) throw error
      // The `created_at` of a tenant's rows is unique: another row got the same.
      if (!constraint.endsWith('_created_at')) return false
    }
  }
}

/**
 * A part of a statement: stores the key of a row that was made again, so that the request is a replay when it is
 * repeated. `row` has `tenant_id, id, idempotency_key, fingerprint`; `route` as in an `IdempotentRequest`.
 */
export function storingRecoveredKey(
  sql: Sql | Tx,
  resource: ResourceName,
  row: Fragment,
  route: Fragment,
): Fragment {
  const known = sql`
    select tenant_id, idempotency_key, ${route} as route, fingerprint, id as resource_id, null::uuid as job_id
    from ${row} where fingerprint is not null`
  return storingKeys(sql, resource, known)
}

/** The column definitions of `ObjectMarks` in `jsonb_to_record`. */
export function markColumns(sql: Sql | Tx): Fragment {
  return sql`tenant_id uuid, id uuid, idempotency_key text, fingerprint text`
}
