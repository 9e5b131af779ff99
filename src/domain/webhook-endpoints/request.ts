// Creates, changes and deletes webhook endpoints, and rotates their secrets.
import { isDeepStrictEqual } from 'node:util'
import { violatedConstraint, type Fragment, type Json, type Sql, type Tx } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import type { Vault } from '#core/secrets.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { isKeyUsed, keyColumns, storingKeys, type IdempotentRequest } from '../idempotency.ts'
import {
  endpointSealingContext,
  MAX_ENDPOINTS,
  type WebhookEndpoint,
  type WebhookEndpointRow,
} from './endpoint.ts'
import { endpointColumns, findEndpoint, openHeaders } from './find.ts'

/** The fields of an endpoint that the caller sets. */
export type EndpointFields = Pick<
  WebhookEndpoint,
  'url' | 'types' | 'description' | 'headers' | 'ordered' | 'max_in_flight' | 'rate_per_s'
> & { metadata: Json }

export type CreateEndpoint = EndpointFields &
  IdempotentRequest & { endpoint_id: string; event_id: string; secret: string }

/** The maximum number of previous secrets that still sign. */
const MAX_PREVIOUS_SECRETS = 10

/**
 * Creates an endpoint in a free one of the tenant's `MAX_ENDPOINTS` numbered slots. Returns `key_used` if the
 * idempotency key was used before. Throws `too_many_webhook_endpoints` if no slot is free, and a unique violation if a
 * concurrent request uses the same key. In both cases nothing is written.
 */
export async function createEndpoint(
  sql: Sql,
  vault: Vault,
  { headers, secret, ...request }: CreateEndpoint,
): Promise<WebhookEndpointRow | 'key_used'> {
  const { tenant_id, endpoint_id } = request
  const sealed = vault.seal(secret, endpointSealingContext(tenant_id, endpoint_id, 'secrets'))
  const requested = {
    ...request,
    headers: sealedHeaders(vault, tenant_id, endpoint_id, headers),
    secrets: [{ sealed, until: null }],
  }
  for (;;) {
    try {
      return await writeEndpoint(sql, requested)
    } catch (error) {
      // A concurrent request took the slot.
      if (violatedConstraint(error) !== 'webhook_endpoints_slot') throw error
    }
  }
}

async function writeEndpoint(
  sql: Sql,
  request: Omit<CreateEndpoint, 'headers' | 'secret'> & { headers: string | null; secrets: Json },
): Promise<WebhookEndpointRow | 'key_used'> {
  const keys = sql`select a.*, endpoint_id as resource_id, null::uuid as job_id from requested a
    join e using (tenant_id)`
  const [row] = await sql<(WebhookEndpointRow & { is_new: boolean })[]>`
    with requested as (
      select * from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, endpoint_id uuid, event_id uuid, url text, types text[], description text,
        headers text, secrets jsonb, ordered boolean, max_in_flight smallint, rate_per_s smallint, metadata jsonb)
      where not ${isKeyUsed(sql, 'webhook_endpoint')}
    ), free as (
      select min(slot) as slot from requested a cross join generate_series(1, ${MAX_ENDPOINTS}::integer) slot
      where not exists (
        select from webhook_endpoints t
        where t.tenant_id = a.tenant_id and t.slot = slot.slot and t.deleted_at is null offset 0)
    ), e as (
      insert into webhook_endpoints (tenant_id, id, idempotency_key, slot, url, types, description, headers, secrets,
        ordered, max_in_flight, rate_per_s, metadata)
      select tenant_id, endpoint_id, idempotency_key, slot, url, types, description, headers, secrets, ordered,
        max_in_flight, rate_per_s, coalesce(metadata, 'null')
      from requested cross join free where slot is not null
      returning *
    ),
    stored_keys as (${storingKeys(sql, 'webhook_endpoint', keys)}),
    event as (${endpointEventsOf(sql, ['created'])})
    select exists (select from requested) as is_new, created.*
    from (values (true)) one left join (select ${endpointColumns(sql)} from e) created on true`
  const { is_new, ...endpoint } = row!
  if (!is_new) return 'key_used'
  // The left join returned a row of nulls: no slot was free.
  if ((endpoint.id as string | null) === null)
    throw new AppError('too_many_webhook_endpoints', { context: { most: MAX_ENDPOINTS } })
  return endpoint
}

/**
 * Changes the given fields. Unchanged values cause no event. Undefined if the endpoint does not exist.
 * Deliveries queued before an endpoint is enabled again are not sent.
 */
export async function updateEndpoint(
  sql: Sql,
  vault: Vault,
  tenant_id: string,
  id: string,
  { status, ...fields }: Partial<EndpointFields & Pick<WebhookEndpoint, 'status'>>,
): Promise<WebhookEndpointRow | undefined> {
  return await sql.begin(async (tx) => {
    const read = await findEndpoint(tx, tenant_id, id, tx`for update`)
    if (read === undefined) return undefined
    const { sealed_headers, ...endpoint } = read
    const before = { ...endpoint, headers: openHeaders(vault, read) }
    const changed = { ...before, ...fields }
    const changes: EndpointChange[] = isDeepStrictEqual(changed, before) ? [] : ['updated']
    if (status !== undefined && status !== before.status) changes.push(status)
    if (changes.length === 0) return read
    const headers =
      fields.headers === undefined ? sealed_headers : sealedHeaders(vault, tenant_id, id, fields.headers)
    const new_status = changes.find((change) => change !== 'updated')
    const [row] = await tx<WebhookEndpointRow[]>`
      with e as (
        update webhook_endpoints e set (url, types, description, headers, ordered, max_in_flight, rate_per_s, metadata,
            updated_at) = (
          select n.url, n.types, n.description, n.headers, n.ordered, n.max_in_flight, n.rate_per_s,
            coalesce(n.metadata, 'null'), clock_timestamp()
          from jsonb_populate_record(e, ${tx.json({ ...changed, headers })}) n)
          ${new_status === undefined ? tx`` : statusColumns(tx, new_status)}
        where e.tenant_id = ${tenant_id} and e.id = ${id}
        returning e.*
      ),
      event as (${endpointEventsOf(tx, changes)})
      select ${endpointColumns(tx)} from e`
    return row
  })
}

function statusColumns(sql: Tx, change: EndpointChange): Fragment {
  return change === 'enabled'
    ? sql`, status = 'enabled', disabled_reason = null, failing_since = null, notified_at = null,
        enabled_at = clock_timestamp()`
    : sql`, status = 'disabled', disabled_reason = 'manual'`
}

/**
 * Gives an endpoint a new secret. The previous secrets sign for `grace_s` more seconds, or for the rest of their own
 * time if that is shorter. At most the last ten previous secrets still sign. Undefined if the key was used before or
 * the endpoint does not exist.
 */
export async function rotateSecret(
  sql: Sql,
  vault: Vault,
  {
    secret,
    ...request
  }: IdempotentRequest & {
    endpoint_id: string
    secret: string
    grace_s: number
  },
): Promise<WebhookEndpointRow | undefined> {
  const { tenant_id, endpoint_id } = request
  const sealed = vault.seal(secret, endpointSealingContext(tenant_id, endpoint_id, 'secrets'))
  const keys = sql`select a.*, e.id as resource_id, null::uuid as job_id from requested a join e using (tenant_id)`
  const [row] = await sql<WebhookEndpointRow[]>`
    with requested as (
      select * from jsonb_to_recordset(${sql.json([{ ...request, sealed }])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, endpoint_id uuid, sealed text, grace_s integer)
      where not ${isKeyUsed(sql)}
    ), e as (
      update webhook_endpoints e set updated_at = clock_timestamp(),
        secrets = jsonb_build_array(jsonb_build_object('sealed', a.sealed, 'until', null)) || (
          select coalesce(jsonb_agg(jsonb_build_object('sealed', o.sealed, 'until', o.until) order by o.nth), '[]')
          from (
            select old.secret ->> 'sealed' as sealed, old.nth,
              least((old.secret ->> 'until')::timestamptz, now() + a.grace_s * interval '1 second') as until
            from jsonb_array_elements(e.secrets) with ordinality as old(secret, nth)
          ) o
          where o.until > now() and o.nth <= ${MAX_PREVIOUS_SECRETS})
      from requested a
      where e.tenant_id = a.tenant_id and e.id = a.endpoint_id and e.deleted_at is null
      returning e.*
    ),
    stored_keys as (${storingKeys(sql, 'webhook_endpoint', keys)}),
    event as (${endpointEventsOf(sql, ['updated'])})
    select ${endpointColumns(sql)} from e`
  return row
}

/**
 * Deletes an endpoint and returns its last state; its slot becomes free. Its headers and secrets are erased, because
 * nothing more is sent. Undefined if it does not exist.
 */
export async function deleteEndpoint(
  sql: Sql,
  tenant_id: string,
  id: string,
): Promise<WebhookEndpointRow | undefined> {
  const [row] = await sql<WebhookEndpointRow[]>`
    with was as (
      select headers from webhook_endpoints
      where tenant_id = ${tenant_id} and id = ${id} and deleted_at is null for update
    ), e as (
      update webhook_endpoints p set deleted_at = clock_timestamp(), updated_at = clock_timestamp(), headers = null,
        secrets = '[]'
      from was where p.tenant_id = ${tenant_id} and p.id = ${id} and p.deleted_at is null
      returning p.*
    ),
    event as (${endpointEventsOf(sql, ['deleted'])})
    select ${endpointColumns(sql, sql`(select was.headers from was)`)} from e`
  return row
}

/** Null without headers. */
function sealedHeaders(
  vault: Vault,
  tenant_id: string,
  id: string,
  headers: WebhookEndpoint['headers'],
): string | null {
  if (Object.keys(headers).length === 0) return null
  return vault.seal(JSON.stringify(headers), endpointSealingContext(tenant_id, id, 'headers'))
}

type EndpointChange = 'created' | 'updated' | 'disabled' | 'enabled' | 'deleted'

/** The events of the row `e`. */
function endpointEventsOf(sql: Sql | Tx, changes: EndpointChange[]): Fragment {
  const events = changes.map((change) => `webhook_endpoint.${change}` satisfies EventType)
  const ids = changes.map(() => newId())
  return insertingEvents(
    sql,
    'webhook_endpoint',
    sql`
      select e.*, announced.event_id, announced.event
      from e cross join unnest(${ids}::uuid[], ${events}::text[]) as announced(event_id, event)`,
  )
}
