// `sluice.webhookDeliveries`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type {
  EventTypes,
  ReplayWebhookDelivery,
  WebhookDelivery,
  WebhookDeliveryDetail,
  WebhookDeliveryStatus,
} from '../schemas.ts'

/** Query parameters of `webhookDeliveries.list`. */
export interface ListWebhookDeliveriesQuery {
  /** The `created_at` of the last item of the previous page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `25`.
   */
  limit?: number
  /** Created at or after. */
  created_from?: string
  /** Created before. */
  created_to?: string
  /** Filter by status. */
  status?: WebhookDeliveryStatus
  /** Filter by event type. */
  type?: EventTypes
  /** Filter by event. */
  event_id?: string
}

/** The deliveries of events to your endpoints, with all attempts. */
export class WebhookDeliveriesResource extends Resource {
  /**
   * Retrieve a delivery.
   *
   * Includes its attempts and its payload.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/webhook_deliveries/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<WebhookDeliveryDetail> {
    return this.send('GET', `/v1/webhook_deliveries/${pathSegment(id)}`, {}, options)
  }

  /**
   * Send a delivery again.
   *
   * Makes one more attempt with the same payload and `webhook-id`, signed with the current secrets, even
   * if the endpoint is disabled. The log of the delivery shows the attempt as `manual`. The delivery's
   * `attempts` do not change; its status changes only if the attempt succeeds, to `delivered`.
   * Statistics do not count it. At most 10 tests and replays of an endpoint, and 20 of all your
   * endpoints, may wait or be in progress.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_deliveries/{id}/replay`
   */
  replay(id: string, body?: ReplayWebhookDelivery, options?: RequestOptions): Answer<WebhookDelivery> {
    return this.send(
      'POST',
      `/v1/webhook_deliveries/${pathSegment(id)}/replay`,
      { body, key: 'header' },
      options,
    )
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
    return this.pages(`/v1/webhook_endpoints/${pathSegment(endpoint_id)}/deliveries`, query, options)
  }
}
