// What became of a parcel, as the carrier tells it.
import { newId } from '#core/ids.ts'
import type { Sql, Tx } from '#core/db.ts'
import { announce, type EventType } from '../events.ts'
import { finishing, holding, type FailedRow, type Settlement } from '../jobs/settle.ts'

export type ParcelSettlement = Settlement & {
  told: { tenant_id: string; parcel_id: string; status: 'shipped' | 'refused'; tracking: string | null }
}

/** Settles jobs that learnt something of a parcel. Answers the ids of the jobs that were still ours. */
export async function settleParcels(sql: Sql | Tx, settlements: ParcelSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ told, ...settlement }) => ({
    ...settlement,
    change: { ...told, event_id: newId() },
  }))
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, items)},
    told as (
      select c.* from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, parcel_id uuid, status text, tracking text, event_id uuid)
    ), p as (
      update parcels p set status = told.status, tracking = told.tracking, updated_at = clock_timestamp()
      from told where p.tenant_id = told.tenant_id and p.id = told.parcel_id and p.status = 'pending'
      returning p.*, told.event_id
    ), event as (
      ${announce(
        sql,
        'parcel',
        sql`select p.*, ${'parcel.shipped' satisfies EventType} as event from p where status = 'shipped'`,
      )}
    ), ${finishing(sql)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** Settles a parcel that the carrier never took. */
export async function settleParcelAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: parcel_id }: FailedRow,
): Promise<void> {
  await settleParcels(tx, [
    { ...settlement, told: { tenant_id, parcel_id, status: 'refused', tracking: null } },
  ])
}
