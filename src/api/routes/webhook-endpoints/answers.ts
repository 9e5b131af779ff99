// Presents webhook endpoints, and finds the endpoint of an idempotency key.
import { AppError } from '#core/errors.ts'
import type { KeyedResource, KeyOnRoute } from '#domain/idempotency.ts'
import type { WebhookEndpoint, WebhookEndpointRow } from '#domain/webhook-endpoints/endpoint.ts'
import { findProtectedEndpoint, openHeaders } from '#domain/webhook-endpoints/find.ts'
import type { RouteContext } from '../../context.ts'
import { createRecentNames } from '../../recent.ts'

/** The minimum number of endpoints that are remembered because their error was logged. */
const MAX_LOGGED_ENDPOINTS = 1_000

export type EndpointViews = {
  /** Presents an endpoint for an answer. `secret`: a secret that was created just now, which the answer shows. */
  view: (endpoint: WebhookEndpointRow, secret?: string) => WebhookEndpoint
  /** The endpoint that an earlier request with this key created or changed. Throws if the endpoint has been deleted. */
  findByKey: (sent: KeyOnRoute) => Promise<KeyedResource<WebhookEndpoint> | undefined>
}

export function createEndpointViews(context: RouteContext): EndpointViews {
  const view = createEndpointView(context)
  return {
    view,
    async findByKey(sent) {
      const stored = await findProtectedEndpoint(context.sql, sent)
      if (stored === undefined) return undefined
      const { fingerprint, resource } = stored
      const { deleted_at, ...endpoint } = resource
      if (deleted_at !== null)
        throw new AppError('webhook_endpoint_not_found', { message: 'The endpoint has been deleted.' })
      return { fingerprint, resource: view(endpoint) }
    },
  }
}

/**
 * Presents endpoints. Headers that cannot be decrypted are returned as empty, and an error is logged once for each
 * endpoint.
 */
function createEndpointView({ vault, log }: RouteContext): EndpointViews['view'] {
  const logged = createRecentNames(MAX_LOGGED_ENDPOINTS)
  return (row, secret) => {
    const headers = openHeaders(vault, row)
    const { sealed_headers: _sealed, ...endpoint } = row
    if (headers === null && !logged.has(row.id)) {
      logged.add(row.id)
      log.error(
        { tenant_id: row.tenant_id, webhook_endpoint_id: row.id },
        'the headers of a webhook endpoint cannot be decrypted: no headers are returned. Check ENCRYPTION_KEY',
      )
    }
    return { ...endpoint, headers: headers ?? {}, secret: secret ?? null }
  }
}
