// Writes webhook deliveries like the sequencer.
import { newId } from '#core/ids.ts'
import type { Json, Sql } from '#core/db.ts'

type Endpoint = { tenant_id: string; id: string }

/** Inserts a delivery of an event that is in the feed. */
export async function deliveryTo(
  sql: Sql,
  { tenant_id, id: endpoint_id }: Endpoint,
  { status = 'pending', type = 'payment.captured', data = null as Json } = {},
): Promise<{ id: string; event_id: string }> {
  const ids = { id: newId(), event_id: newId(), subject_id: newId() }
  await sql`
    with event as (
      insert into events (tenant_id, id, type, subject_id, data, sequenced, sequence)
      values (${tenant_id}, ${ids.event_id}, ${type}, ${ids.subject_id},
        ${sql.json(data ?? { id: ids.subject_id })}, true, 17)
      returning *
    ), entry as (
      insert into feed_entries (tenant_id, sequence, event_id, type, created_at)
      select tenant_id, sequence, id, type, created_at from event
    )
    insert into webhook_deliveries (tenant_id, id, endpoint_id, event_id, event_created_at, type, sequence, status,
      delivered_at, failed_at, attempts_log)
    select tenant_id, ${ids.id}, ${endpoint_id}, id, created_at, type, sequence, ${status},
      case when ${status} = 'delivered' then now() end,
      case when ${status} in ('failed', 'exhausted', 'skipped') then now() end,
      case when ${status} = 'delivered' then jsonb_build_array(jsonb_build_object('at', '2026-11-20T10:15:30.123456Z',
        'status_code', 200, 'duration_ms', 84, 'error', null, 'response_excerpt', 'ok', 'manual', false)) else '[]' end
    from event`
  return ids
}

/** Inserts a delivery whose event is deleted. Returns the delivery's id. */
export async function expiredDelivery(sql: Sql, endpoint: Endpoint): Promise<string> {
  const { id, event_id } = await deliveryTo(sql, endpoint, { status: 'failed' })
  await sql`delete from events where tenant_id = ${endpoint.tenant_id} and id = ${event_id}`
  await sql`delete from feed_entries where tenant_id = ${endpoint.tenant_id} and event_id = ${event_id}`
  return id
}
