// Creates parcels in one statement with the idempotency key and the job.
import type { Sql } from '#core/db.ts'
import { enqueuing, requestJson } from '#jobs/job.ts'
import { shipParcel } from '#jobs/parcels.ts'
import { isKeyUsed, storingKeys, type JobRequest } from '../idempotency.ts'

export type ParcelRequest = JobRequest & { parcel_id: string; address: string }

/** Creates parcels and requests their shipment. Returns `accepted` or `key_used` by parcel id. */
export async function requestParcels(
  sql: Sql,
  requests: ParcelRequest[],
): Promise<Map<string, 'accepted' | 'key_used'>> {
  const rows = await sql<{ id: string; result: 'accepted' | 'key_used' }[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql, 'parcel')} as key_used from jsonb_to_recordset(${sql.json(requests)}) as a(
        tenant_id uuid, parcel_id uuid, job_id uuid, will_wake boolean, idempotency_key text, route text, fingerprint text,
        request_id text, address text)
    ), requested as (
      select * from requests where not key_used
    ), p as (
      insert into parcels (tenant_id, id, idempotency_key, address)
      select tenant_id, parcel_id, idempotency_key, address from requested
      returning id
    ), stored_keys as (${storingKeys(sql, 'parcel', sql`select *, parcel_id as resource_id from requested`)}
    ), job as (${enqueuing(
      sql,
      shipParcel,
      sql`
      select job_id, tenant_id, parcel_id as resource_id, jsonb_build_object('parcel_id', parcel_id) as payload, will_wake,
        null::text as dedupe_key, request_id,
        ${requestJson(sql, shipParcel, { parcel_id: sql`parcel_id`, address: sql`address` })} as request
      from requested`,
    )})
    select id, 'accepted' as result from p union all select parcel_id, 'key_used' from requests where key_used`
  return new Map(rows.map(({ id, result }) => [id, result]))
}
