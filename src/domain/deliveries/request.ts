// Requests manual deliveries: tests and replays.
import { isoText, type Fragment, type Json, type Sql } from '#core/db.ts'
import { replayDelivery, testDelivery } from '#jobs/deliveries.ts'
import { enqueuing } from '#jobs/job.ts'
import { isKeyUsed, jobRequestColumns, storingKeys, type JobRequest } from '../idempotency.ts'
import type { Delivery } from './delivery.ts'
import { deliveryColumns, isEndpointNotDeleted } from './find.ts'

type AttemptRequest = Omit<JobRequest, 'event_id'>

/** The maximum number of open tests and replays: each stays open for long if the receiver never responds. */
const MAX_MANUAL_ATTEMPTS = { of_endpoint: 10, of_tenant: 20 }

/**
 * Creates a test delivery with the data `sample` and enqueues its attempt. Undefined if the key was used
 * before, if the endpoint does not exist, or if the endpoint or its tenant has too many manual attempts.
 */
export async function requestTest(
  sql: Sql,
  request: AttemptRequest & {
    endpoint_id: string
    delivery_id: string
    event_id: string
    type: string
    sample: Json
  },
): Promise<Delivery | undefined> {
  const [row] = await sql<Delivery[]>`
    with requested as (
      select * from jsonb_to_recordset(${sql.json([request])}) as a(
        ${jobRequestColumns(sql)}, endpoint_id uuid, delivery_id uuid, type text, sample jsonb)
      where not ${isKeyUsed(sql)}
    ), d as (
      insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sample, status,
        next_attempt_at)
      select a.tenant_id, a.delivery_id, p.id, a.event_id, now(), a.type, a.sample, 'pending', now()
      from requested a join webhook_endpoints p on p.tenant_id = a.tenant_id and p.id = a.endpoint_id
      where p.deleted_at is null and ${isBelowManualLimit(sql, sql`p.id`)}
      returning *
    ),
    job as (${enqueuing(sql, testDelivery, manualJob(sql, sql`'{}'::jsonb`))}),
    stored_keys as (${storingKeys(sql, 'webhook_delivery', idempotencyRows(sql))})
    select ${deliveryColumns(sql)} from d`
  return row
}

/**
 * Enqueues one more attempt of a delivery, requested with the API key `key_id`, even if the endpoint is
 * disabled. Undefined if the delivery does not exist, if its event is deleted, if the idempotency key was used
 * before, or if the endpoint or its tenant has too many manual attempts.
 */
export async function requestReplay(
  sql: Sql,
  request: AttemptRequest & { delivery_id: string; key_id: string },
): Promise<Delivery | undefined> {
  const [row] = await sql<Delivery[]>`
    with requested as (
      select * from jsonb_to_recordset(${sql.json([request])}) as a(
        ${jobRequestColumns(sql)}, delivery_id uuid, key_id uuid)
      where not ${isKeyUsed(sql)}
    ), d as (
      select d.* from requested a join webhook_deliveries d on d.tenant_id = a.tenant_id and d.id = a.delivery_id
      where ${isEndpointNotDeleted(sql)} and ${isBelowManualLimit(sql, sql`d.endpoint_id`)}
        and (d.sample is not null or exists (
        select from events e
        where e.tenant_id = d.tenant_id and e.id = d.event_id and e.created_at = d.event_created_at))
    ),
    job as (${enqueuing(sql, replayDelivery, manualJob(sql, sql`jsonb_build_object('key_id', a.key_id)`))}),
    stored_keys as (${storingKeys(sql, 'webhook_delivery', idempotencyRows(sql))})
    select ${deliveryColumns(sql)} from d`
  return row
}

/** Whether the endpoint and its tenant are below their limits. Concurrent requests may exceed them slightly. */
function isBelowManualLimit(sql: Sql, endpoint_id: Fragment): Fragment {
  return sql`(
    select count(*) < ${MAX_MANUAL_ATTEMPTS.of_tenant}
      and count(*) filter (where j.resource_id = ${endpoint_id}) < ${MAX_MANUAL_ATTEMPTS.of_endpoint}
    from jobs j
    where j.queue = ${replayDelivery.queue} and j.tenant_id = a.tenant_id and j.finished_at is null
      and j.name in (${replayDelivery.name}, ${testDelivery.name}))`
}

/**
 * The job of a manual attempt: the request `a` asks for an attempt at the delivery `d`. `more`: further fields of
 * the payload.
 */
function manualJob(sql: Sql, more: Fragment): Fragment {
  return sql`
    select a.job_id, d.tenant_id, d.endpoint_id as resource_id, a.will_wake, null::text as dedupe_key, a.request_id,
      jsonb_build_object('delivery_id', d.id, 'created_at', ${isoText(sql, sql`d.created_at`)}) || ${more} as payload
    from requested a join d using (tenant_id)`
}

function idempotencyRows(sql: Sql): Fragment {
  return sql`select a.*, d.id as resource_id from requested a join d using (tenant_id)`
}
