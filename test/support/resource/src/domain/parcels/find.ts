// Finds parcels.
import type { Sql } from '#core/db.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import type { Parcel } from './parcel.ts'

/** Finds the parcels with the requested jobs. The result has the order of the requests. */
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
