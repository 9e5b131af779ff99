// How parcels are found.
import type { Sql } from '#core/db.ts'
import { findWithJobs, type AskedFor, type Found } from '../jobs/found.ts'
import type { Parcel } from './parcel.ts'

/** Parcels with the jobs that are asked about, in the order asked. */
export async function findParcels(sql: Sql, asked: AskedFor[]): Promise<(Found<Parcel> | undefined)[]> {
  const columns = sql`id, tenant_id, idempotency_key, status, address, tracking, created_at, updated_at`
  return await findWithJobs<Parcel>(sql, 'parcel', columns, asked)
}
