// Settles parcels with the carrier's result.
import { newId } from '#core/ids.ts'
import type { Sql, Tx } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { finishing, fencing, type FailedRow, type Settlement } from '../jobs/settle.ts'

export type ParcelSettlement = Settlement & {
  update: { tenant_id: string; parcel_id: string; status: 'shipped' | 'refused'; tracking: string | null }
}

/** Settles jobs and their parcels. Returns the ids of the jobs whose lease was still valid. */
export async function settleParcels(sql: Sql | Tx, settlements: ParcelSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ update, ...settlement }) => ({
    ...settlement,
    change: { ...update, event_id: newId() },
  }))
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, items)},
    updates as (
      select c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        tenant_id uuid, parcel_id uuid, status text, tracking text, event_id uuid)
    ), p as (
      update parcels p set status = updates.status, tracking = updates.tracking, updated_at = clock_timestamp()
      from updates where p.tenant_id = updates.tenant_id and p.id = updates.parcel_id and p.status = 'pending'
      returning p.*, updates.event_id
    ), event as (
      ${insertingEvents(
        sql,
        'parcel',
        sql`select p.*, ${'parcel.shipped' satisfies EventType} as event from p where status = 'shipped'`,
      )}
    ), ${finishing(sql, settlements)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** Settles a parcel that the carrier has not accepted. */
export async function settleParcelAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: parcel_id }: FailedRow,
): Promise<void> {
  await settleParcels(tx, [
    { ...settlement, update: { tenant_id, parcel_id, status: 'refused', tracking: null } },
  ])
}
