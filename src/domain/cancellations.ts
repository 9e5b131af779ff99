// Cancellations that were recorded while a provider call was in progress.
import type { Sql } from '#core/db.ts'
import { resourceOf } from './resources.ts'

/** Whether a recorded cancellation was dropped: the row no longer requests it and is not canceled. */
export async function isCancelDropped(
  sql: Sql,
  resource: 'payment' | 'payout',
  { tenant_id, id }: { tenant_id: string; id: string },
): Promise<boolean> {
  const [row] = await sql<{ dropped: boolean }[]>`
    select status <> 'canceled' and (not open or cancel_requested_at is null) as dropped
    from ${sql(resourceOf(resource).table)} where tenant_id = ${tenant_id} and id = ${id}`
  return row?.dropped === true
}
