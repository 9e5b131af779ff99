// Loads the data of an attempt: the delivery, its event and its endpoint.
import { createBatcherPerPool } from '#core/batch.ts'
import type { Json, Sql } from '#core/db.ts'
import { findCompletionRows, MAX_LISTED_VALUE_BYTES } from '../event-data.ts'
import type { CompletionRow } from '../resource.ts'
import { droppedAs } from './dropped.ts'

/** The key of a delivery; its creation time selects the partition. */
export type DeliveryKey = { tenant_id: string; delivery_id: string; created_at: string }

/** A delivery with the data of its attempt. */
export type LoadedDelivery = {
  id: string
  tenant_id: string
  created_at: string
  status: string
  /** The number of finished attempts of its schedule. */
  step: number
  event_id: string
  type: string
  sequence: number | null
  event_created_at: string
  /** The stored data of the event; null for a test, and once the event is deleted. */
  stored: Json | null
  /** The data of a test. */
  sample: Json | null
  /** The row that completes the event, sealed. */
  completing: CompletionRow | null
  endpoint_id: string
  url: string
  /** Sealed; null without headers. */
  headers: string | null
  /** The secrets that currently sign, sealed, newest first. */
  secrets: string[]
  /** Whether the endpoint is deleted. */
  deleted: boolean
  /** The status of a delivery to a disabled or deleted endpoint; null while the endpoint is enabled. */
  dropped_as: 'failed' | 'skipped' | null
}

/** Undefined if the delivery no longer exists. */
export const loadDelivery: (sql: Sql, key: DeliveryKey) => Promise<LoadedDelivery | undefined> =
  createBatcherPerPool('load_delivery', loadDeliveries)

async function loadDeliveries(sql: Sql, keys: DeliveryKey[]): Promise<(LoadedDelivery | undefined)[]> {
  const rows = await sql<(Omit<LoadedDelivery, 'completing'> & { nth: number })[]>`
    select requested.nth, d.id, d.tenant_id, d.created_at, d.status, d.step, d.event_id, d.type, d.sequence,
      d.event_created_at, d.sample, e.data as stored, p.id as endpoint_id, p.url, p.headers,
      p.deleted_at is not null as deleted, ${droppedAs(sql)} as dropped_as,
      array(select s ->> 'sealed' from jsonb_array_elements(p.secrets) with ordinality as each(s, nth)
        where coalesce((s ->> 'until')::timestamptz > now(), true) order by each.nth) as secrets
    from jsonb_to_recordset(${sql.json(keys.map((key, nth) => ({ ...key, nth })))}) as requested(
      nth integer, tenant_id uuid, delivery_id uuid, created_at timestamptz)
    cross join lateral (
      select * from webhook_deliveries d
      where d.tenant_id = requested.tenant_id and d.id = requested.delivery_id
        and d.created_at = requested.created_at offset 0) d
    join webhook_endpoints p on p.tenant_id = d.tenant_id and p.id = d.endpoint_id
    left join lateral (
      select e.data from events e
      where e.sequenced and e.tenant_id = d.tenant_id and e.id = d.event_id and e.created_at = d.event_created_at
      offset 0) e on d.sample is null`
  const completing = await findCompletionRows(sql, rows, MAX_LISTED_VALUE_BYTES)
  const found = new Map(
    rows.map(({ nth, ...row }, place) => [nth, { ...row, completing: completing[place]! }]),
  )
  return keys.map((_key, nth) => found.get(nth))
}
