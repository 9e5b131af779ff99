// Reads webhook endpoints that are not deleted.
import { columnList, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { SealError, type Vault } from '#core/secrets.ts'
import { findByKeys, type KeyedResource, type KeyOnRoute } from '../idempotency.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import {
  endpointEventSchema,
  endpointSealingContext,
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

/** One endpoint, or undefined. `locked`: a locking clause, in a transaction. */
export async function findEndpoint(
  sql: Sql | Tx,
  tenant_id: string,
  id: string,
  locked: Fragment = sql``,
): Promise<WebhookEndpointRow | undefined> {
  const [row] = await sql<WebhookEndpointRow[]>`
    select ${endpointColumns(sql)} from webhook_endpoints
    where tenant_id = ${tenant_id} and id = ${id} and deleted_at is null ${locked}`
  return row
}

/**
 * The endpoint that was created with this idempotency key or changed with it, even if the endpoint is deleted; or
 * undefined.
 */
export async function findProtectedEndpoint(
  sql: Sql,
  sent: KeyOnRoute,
): Promise<KeyedResource<WebhookEndpointRow & { deleted_at: string | null }> | undefined> {
  const columns = sql`${endpointColumns(sql)}, deleted_at`
  const [found] = await findByKeys<WebhookEndpointRow & { deleted_at: string | null }>(
    sql,
    'webhook_endpoint',
    columns,
    [sent],
  )
  return found
}

/** The headers of an endpoint; null if they cannot be opened: the key is missing, or the sealed text was changed. */
export function openHeaders(
  vault: Vault,
  { tenant_id, id, sealed_headers }: WebhookEndpointRow,
): WebhookEndpoint['headers'] | null {
  if (sealed_headers === null) return {}
  try {
    const text = vault.open(sealed_headers, endpointSealingContext(tenant_id, id, 'headers'))
    return JSON.parse(text) as WebhookEndpoint['headers']
  } catch (error) {
    if (error instanceof SealError) return null
    throw error
  }
}

/** The columns of a row; `headers`: the source of the headers. */
export function endpointColumns(sql: Sql | Tx, headers: Fragment = sql`headers`): Fragment {
  return sql`
    ${columnList(sql, Object.keys(endpointEventSchema.shape))}, failing_since, ${headers} as sealed_headers`
}
