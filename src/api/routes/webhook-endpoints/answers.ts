// Answers with webhook endpoints: shows them, and finds the one that a key protects.
import { AppError } from '#core/errors.ts'
import type { KeyedResource, KeyOnRoute } from '#domain/idempotency.ts'
import type { WebhookEndpoint, WebhookEndpointRow } from '#domain/webhook-endpoints/endpoint.ts'
import { findProtectedEndpoint, openHeaders } from '#domain/webhook-endpoints/find.ts'
import type { RouteContext } from '../../context.ts'
import { createRecentNames } from '../../recent.ts'

/** Of so many endpoints it is remembered that it was said. */
const MAX_LOGGED_ENDPOINTS = 1_000

export type EndpointViews = {
  /** Shows an endpoint; `secret`: the one that was made just now. */
  view: (endpoint: WebhookEndpointRow, secret?: string) => WebhookEndpoint
  /** The endpoint that this key protects. Throws if it was deleted since. */
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
        throw new AppError('webhook_endpoint_not_found', { message: 'The endpoint was deleted since.' })
      return { fingerprint, resource: view(endpoint) }
    },
  }
}

/** Headers that do not open are shown as none, and logged once for each endpoint. */
function createEndpointView({ vault, log }: RouteContext): EndpointViews['view'] {
  const logged = createRecentNames(MAX_LOGGED_ENDPOINTS)
  return (row, secret) => {
    const headers = openHeaders(vault, row)
    const { sealed_headers: _sealed, ...endpoint } = row
    if (headers === null && !logged.has(row.id)) {
      logged.add(row.id)
      log.error(
        { tenant_id: row.tenant_id, webhook_endpoint_id: row.id },
        'the headers of an endpoint do not open: they are shown as none',
      )
    }
    return { ...endpoint, headers: headers ?? {}, secret: secret ?? null }
  }
}
