// Endpoints as answers show them.
import type { WebhookEndpoint, WebhookEndpointRow } from '#domain/webhook-endpoints/endpoint.ts'
import { openedHeaders } from '#domain/webhook-endpoints/find.ts'
import type { ApiContext } from '../../context.ts'
import { createRecent } from '../../recent.ts'

/** Of so many endpoints it is remembered that it was said. */
const SAID = 1_000

/** Shows an endpoint; `secret`: the one that was made just now. */
export type ShowEndpoint = (endpoint: WebhookEndpointRow, secret?: string) => WebhookEndpoint

/** Headers that do not open are shown as none, and logged once for each endpoint. */
export function createShowEndpoint({ vault, log }: Pick<ApiContext, 'vault' | 'log'>): ShowEndpoint {
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
