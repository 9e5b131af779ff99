// `sluice.webhookDeliveries`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { part, Resource } from '../../resource.ts'
import type {
  EventTypes,
  ReplayWebhookDelivery,
  WebhookDelivery,
  WebhookDeliveryDetail,
  WebhookDeliveryStatus,
} from '../schemas.ts'

/** What `webhookDeliveries.list` can be asked for. */
export interface ListWebhookDeliveriesQuery {
  /** The `created_at` of the last item of the page before. */
  before?: string
  /**
   * Page size.
   *
   * `25` unless said otherwise.
   */
  limit?: number
  /** Created at or after. */
  created_from?: string
  /** Created before. */
  created_to?: string
  /** Only those in this status. */
  status?: WebhookDeliveryStatus
  /** Only those of these events. */
  type?: EventTypes
  /** Only those of this event. */
  event_id?: string
}

/** Events on their way to your endpoints, attempt by attempt. */
export class WebhookDeliveriesResource extends Resource {
  /**
   * Retrieve a delivery.
   *
   * With its attempts, and what is sent.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/webhook_deliveries/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<WebhookDeliveryDetail> {
    return this.send('GET', `/v1/webhook_deliveries/${part(id)}`, {}, options)
  }

  /**
   * Send a delivery again.
   *
   * One more attempt with the same payload and `webhook-id`, signed with the present secrets; also where
   * the endpoint is disabled. Its log shows it as `manual`. Its status and `attempts` stay, but that
   * success makes it `delivered`. It counts in no statistics. At most 10 tests and replays of an
   * endpoint, and 20 of all yours, wait or are under way.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_deliveries/{id}/replay`
   */
  replay(id: string, body?: ReplayWebhookDelivery, options?: RequestOptions): Answer<WebhookDelivery> {
    return this.send('POST', `/v1/webhook_deliveries/${part(id)}/replay`, { body, key: 'header' }, options)
  }

  /**
   * List deliveries to an endpoint, newest first.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/webhook_endpoints/{id}/deliveries`
   */
  list(
    endpoint_id: string,
    query?: ListWebhookDeliveriesQuery,
    options?: RequestOptions,
  ): Pages<WebhookDelivery> {
    return this.pages(`/v1/webhook_endpoints/${part(endpoint_id)}/deliveries`, query, options)
  }
}
