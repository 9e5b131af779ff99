// Answers with webhook endpoints: shows them, and finds the one that a key protects.
import { AppError } from '#core/errors.ts'
import type { Protected, SentKey } from '#domain/idempotency.ts'
import type { WebhookEndpoint, WebhookEndpointRow } from '#domain/webhook-endpoints/endpoint.ts'
import { findProtectedEndpoint, openedHeaders } from '#domain/webhook-endpoints/find.ts'
import type { RouteContext } from '../../context.ts'
import { createRecent } from '../../recent.ts'

/** Of so many endpoints it is remembered that it was said. */
const SAID = 1_000

export type EndpointAnswers = {
  /** Shows an endpoint; `secret`: the one that was made just now. */
  show: (endpoint: WebhookEndpointRow, secret?: string) => WebhookEndpoint
  /** The endpoint that this key protects. Throws if it was deleted since. */
  findByKey: (sent: SentKey) => Promise<Protected<WebhookEndpoint> | undefined>
}

export function createEndpointAnswers(context: RouteContext): EndpointAnswers {
  const show = createShowEndpoint(context)
  return {
    show,
    async findByKey(sent) {
      const remembered = await findProtectedEndpoint(context.sql, sent)
      if (remembered === undefined) return undefined
      const { fingerprint, resource } = remembered
      const { deleted_at, ...endpoint } = resource
      if (deleted_at !== null)
        throw new AppError('webhook_endpoint_not_found', { message: 'The endpoint was deleted since.' })
      return { fingerprint, resource: show(endpoint) }
    },
  }
}

/** Headers that do not open are shown as none, and logged once for each endpoint. */
function createShowEndpoint({ vault, log }: RouteContext): EndpointAnswers['show'] {
  const said = createRecent(SAID)
  return (row, secret) => {
    const headers = openedHeaders(vault, row)
    const { sealed_headers: _sealed, ...endpoint } = row
    if (headers === null && !said.has(row.id)) {
      said.add(row.id)
      log.error(
        { tenant_id: row.tenant_id, webhook_endpoint_id: row.id },
        'the headers of an endpoint do not open: they are shown as none',
      )
    }
    return { ...endpoint, headers: headers ?? {}, secret: secret ?? null }
  }
}
