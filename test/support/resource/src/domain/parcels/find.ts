// Finds parcels.
import type { Sql } from '#core/db.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import type { Parcel } from './parcel.ts'

/** The requested parcels with their jobs, in the order of `requested`. Undefined: the tenant has no such parcel. */
export async function findParcels(
  sql: Sql,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<Parcel> | undefined)[]> {
  const columns = sql`id, tenant_id, idempotency_key, status, address, tracking, created_at, updated_at`
  return await findWithJobs<Parcel>(sql, 'parcel', columns, requested)
}

/** Finds the parcel with this tracking number, of any tenant. */
export async function findParcelByTracking(
  sql: Sql,
  carrier: string,
  tracking: string,
): Promise<{ tenant_id: string; id: string } | undefined> {
  const [row] = await sql<{ tenant_id: string; id: string }[]>`
    select tenant_id, id from parcels where carrier = ${carrier} and tracking = ${tracking}`
  return row
}

/** The tracking number of the parcel; null if it is not stored. */
export async function findTracking(
  sql: Sql,
  { tenant_id, parcel_id }: { tenant_id: string; parcel_id: string },
): Promise<string | null> {
  const [row] = await sql<{ tracking: string | null }[]>`
    select tracking from parcels where tenant_id = ${tenant_id} and id = ${parcel_id}`
  return row?.tracking ?? null
}
