// Reads the deliveries to endpoints that are not deleted.
import { columnList, type Fragment, type Json, type Sql } from '#core/db.ts'
import { findCompletionRows, MAX_LISTED_VALUE_BYTES, type EventCompleter } from '../event-data.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { deliverySchema, type Delivery, type DeliveryDetail } from './delivery.ts'
import { payloadOf } from './payload.ts'

/** `type`: a type, `<resource>.*` or `*`. */
export type DeliveryFilters = ListPage & { status?: Delivery['status']; type?: string; event_id?: string }

/** The deliveries to an endpoint, newest first. */
export async function listDeliveries(
  sql: Sql,
  { tenant_id, endpoint_id }: { tenant_id: string; endpoint_id: string },
  { status, type = '*', event_id, ...page }: DeliveryFilters,
): Promise<Delivery[]> {
  const prefix = type.endsWith('*') ? type.slice(0, -1) : ''
  const exact = type.endsWith('*') ? null : type
  const has_failed = status === 'failed' || status === 'exhausted' || status === 'skipped'
  // Only filters with an index change the statement's text, because each connection must plan every distinct text.
  return await sql<Delivery[]>`
    select ${deliveryColumns(sql)} from webhook_deliveries
    where tenant_id = ${tenant_id} and endpoint_id = ${endpoint_id} and ${createdWithin(sql, page)}
      and status = coalesce(${status ?? null}, status) ${has_failed ? sql`and failed_at is not null` : sql``}
      and type = coalesce(${exact}, type) and starts_with(type, ${prefix})
      ${event_id === undefined ? sql`` : sql`and event_id = ${event_id}`}
    order by created_at desc limit ${page.limit}`
}

/** The deliveries of an event: one for each subscribed endpoint. */
export async function listDeliveriesOfEvent(
  sql: Sql,
  tenant_id: string,
  event_id: string,
): Promise<Delivery[]> {
  return await sql<Delivery[]>`
    select ${deliveryColumns(sql)} from webhook_deliveries d
    where d.tenant_id = ${tenant_id} and d.event_id = ${event_id} and ${isEndpointNotDeleted(sql)}
    order by d.created_at limit 100`
}

/** One delivery, or undefined. */
export async function findDelivery(sql: Sql, tenant_id: string, id: string): Promise<Delivery | undefined> {
  const [row] = await sql<Delivery[]>`
    select ${deliveryColumns(sql)} from webhook_deliveries d
    where d.tenant_id = ${tenant_id} and d.id = ${id} and ${isEndpointNotDeleted(sql)}`
  return row
}

type DetailRow = Delivery &
  Pick<DeliveryDetail, 'attempts_log'> & {
    event_created_at: string
    sample: Json | null
    stored: Json | null
  }

/** One delivery with its attempts and its payload, or undefined. The payload is null once the event is deleted. */
export async function findDeliveryDetail(
  sql: Sql,
  complete: EventCompleter,
  { tenant_id, livemode }: { tenant_id: string; livemode: boolean },
  id: string,
): Promise<DeliveryDetail | undefined> {
  const [row] = await sql<DetailRow[]>`
    select ${deliveryColumns(sql)}, attempts_log, event_created_at, sample, (
      select e.data from events e
      where e.tenant_id = d.tenant_id and e.id = d.event_id and e.created_at = d.event_created_at) as stored
    from webhook_deliveries d where d.tenant_id = ${tenant_id} and d.id = ${id} and ${isEndpointNotDeleted(sql)}`
  if (row === undefined) return undefined
  const { event_created_at: created_at, stored, sample, ...delivery } = row
  if (sample === null && stored === null) return { ...delivery, payload: null }
  const { event_id, type, sequence } = delivery
  const event = { tenant_id, type, stored }
  const [completing = null] =
    stored === null ? [] : await findCompletionRows(sql, [event], MAX_LISTED_VALUE_BYTES)
  const data = sample ?? complete(event, completing)
  const about = {
    id: event_id,
    type,
    created_at,
    sequence,
    tenant_id,
    livemode,
    data,
    omits: completing?.omits,
  }
  return { ...delivery, payload: JSON.parse(payloadOf(about)) as Json }
}

/** Whether the endpoint of the delivery `d` is not deleted. */
export function isEndpointNotDeleted(sql: Sql): Fragment {
  return sql`exists (
    select from webhook_endpoints p where p.tenant_id = d.tenant_id and p.id = d.endpoint_id and p.deleted_at is null)`
}

/** The columns of a delivery in responses. */
export function deliveryColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(deliverySchema.shape))
}
