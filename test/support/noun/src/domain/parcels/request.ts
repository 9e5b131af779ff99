// What callers ask of a parcel: created in the statement that remembers the key and asks for the job.
import type { Sql } from '#core/db.ts'
import { enqueue, requestJson } from '#jobs/job.ts'
import { shipParcel } from '#jobs/parcels.ts'
import { isKnown, remember, type JobRequest } from '../idempotency.ts'

export type ParcelRequest = JobRequest & { parcel_id: string; address: string }

/** Creates parcels and asks for their shipment. Answers by id what was `accepted`, and whose key was `known`. */
export async function requestParcels(
  sql: Sql,
  requests: ParcelRequest[],
): Promise<Map<string, 'accepted' | 'known'>> {
  const rows = await sql<{ id: string; became: 'accepted' | 'known' }[]>`
    with given as (
      select a.*, ${isKnown(sql, 'parcel')} as known from jsonb_to_recordset(${sql.json(requests)}) as a(
        tenant_id uuid, parcel_id uuid, job_id uuid, rung boolean, idempotency_key text, route text, fingerprint text,
        request_id text, address text)
    ), asked as (
      select * from given where not known
    ), p as (
      insert into parcels (tenant_id, id, idempotency_key, address)
      select tenant_id, parcel_id, idempotency_key, address from asked
      returning id
    ), remembered as (${remember(sql, 'parcel', sql`select *, parcel_id as resource_id from asked`)}
    ), job as (${enqueue(
      sql,
      shipParcel,
      sql`
      select job_id, tenant_id, parcel_id as subject_id, jsonb_build_object('parcel_id', parcel_id) as payload, rung,
        null::text as dedupe_key, request_id, ${requestJson(sql, shipParcel, { address: sql`address` })} as request
      from asked`,
    )})
    select id, 'accepted' as became from p union all select parcel_id, 'known' from given where known`
  return new Map(rows.map(({ id, became }) => [id, became]))
}
