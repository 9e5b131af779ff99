// Reads webhook endpoints: those that were not deleted.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import type { Vault } from '#core/secrets.ts'
import { findProtected, type Protected, type SentKey } from '../idempotency.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import {
  endpointEventSchema,
  endpointPlace,
  type WebhookEndpoint,
  type WebhookEndpointRow,
} from './endpoint.ts'

/** The endpoints of a tenant, newest first. */
export async function listEndpoints(
  sql: Sql,
  tenant_id: string,
  page: ListPage,
): Promise<WebhookEndpointRow[]> {
  return await sql<WebhookEndpointRow[]>`
    select ${endpointColumns(sql)} from webhook_endpoints
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)} and deleted_at is null
    order by created_at desc limit ${page.limit}`
}

/** One endpoint; undefined when there is none. */
export async function findEndpoint(
  sql: Sql,
  tenant_id: string,
  id: string,
): Promise<WebhookEndpointRow | undefined> {
  const [row] = await sql<WebhookEndpointRow[]>`
    select ${endpointColumns(sql)} from webhook_endpoints
    where tenant_id = ${tenant_id} and id = ${id} and deleted_at is null`
  return row
}

/** The endpoint that the key protects, also one that was deleted since; or undefined. */
export async function findProtectedEndpoint(
  sql: Sql,
  sent: SentKey,
): Promise<Protected<WebhookEndpointRow & { deleted_at: string | null }> | undefined> {
  const columns = sql`${endpointColumns(sql)}, deleted_at`
  const [found] = await findProtected<WebhookEndpointRow & { deleted_at: string | null }>(
    sql,
    'webhook_endpoint',
    columns,
    [sent],
  )
  return found
}

/** An endpoint as answers show it. `secret`: the one that was made just now. */
export function openedEndpoint(
  vault: Vault,
  { sealed_headers, ...endpoint }: WebhookEndpointRow,
  secret: string | null = null,
): WebhookEndpoint {
  const { tenant_id, id } = endpoint
  const text =
    sealed_headers === null ? '{}' : vault.open(sealed_headers, endpointPlace(tenant_id, id, 'headers'))
  return { ...endpoint, headers: JSON.parse(text) as WebhookEndpoint['headers'], secret }
}

/** The columns of a row as it is read. */
export function endpointColumns(sql: Sql): Fragment {
  return sql`${columnList(sql, Object.keys(endpointEventSchema.shape))}, headers as sealed_headers`
}
