// `sluice.webhookEndpoints`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { part, Resource } from '../../resource.ts'
import type {
  CreateWebhookEndpoint,
  RecoverWebhookEndpoint,
  RotateWebhookSecret,
  TestWebhookEndpoint,
  UpdateWebhookEndpoint,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookEndpointStats,
  WebhookRecovery,
} from '../schemas.ts'

/** What `webhookEndpoints.list` can be asked for. */
export interface ListWebhookEndpointsQuery {
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
}

/** Where your events are sent to. */
export class WebhookEndpointsResource extends Resource {
  /**
   * Create a webhook endpoint.
   *
   * Events that happen from now on are sent there, signed as Standard Webhooks says. The secret is in
   * this answer and in no other. There are at most 20 endpoints.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_endpoints`
   */
  create(body: CreateWebhookEndpoint, options?: RequestOptions): Answer<WebhookEndpoint> {
    return this.send('POST', '/v1/webhook_endpoints', { body, key: 'header' }, options)
  }

  /**
   * List webhook endpoints, newest first.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/webhook_endpoints`
   */
  list(query?: ListWebhookEndpointsQuery, options?: RequestOptions): Pages<WebhookEndpoint> {
    return this.pages('/v1/webhook_endpoints', query, options)
  }

  /**
   * Retrieve a webhook endpoint.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/webhook_endpoints/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<WebhookEndpoint> {
    return this.send('GET', `/v1/webhook_endpoints/${part(id)}`, {}, options)
  }

  /**
   * Change a webhook endpoint.
   *
   * A field that is left out stays as it is; null takes `rate_per_s` or `description` away. What happens
   * while it is disabled is skipped, and so is all that waits when you disable it, whenever it would be
   * due: enabling sends nothing of that, recovering does. A recovery that was asked for before ends.
   * Enabling also takes back that it was disabled by itself.
   *
   * Needs the scope `webhooks:write`.
   *
   * `PATCH /v1/webhook_endpoints/{id}`
   */
  update(id: string, body?: UpdateWebhookEndpoint, options?: RequestOptions): Answer<WebhookEndpoint> {
    return this.send('PATCH', `/v1/webhook_endpoints/${part(id)}`, { body }, options)
  }

  /**
   * Delete a webhook endpoint.
   *
   * Nothing is sent there any more; its deliveries cannot be read any more. Answers it as it was.
   *
   * Needs the scope `webhooks:write`.
   *
   * `DELETE /v1/webhook_endpoints/{id}`
   */
  delete(id: string, options?: RequestOptions): Answer<WebhookEndpoint> {
    return this.send('DELETE', `/v1/webhook_endpoints/${part(id)}`, {}, options)
  }

  /**
   * Send again what was missed.
   *
   * Sends again the deliveries that were made within this time and are `failed`, `exhausted`, `skipped`,
   * or pending after a failed attempt; also where the endpoint is disabled. Each begins its schedule
   * anew, and its `attempts` go on. A recovery ends when the endpoint is disabled after it was asked
   * for. An endpoint has one recovery at a time.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_endpoints/{id}/recover`
   */
  recover(id: string, body: RecoverWebhookEndpoint, options?: RequestOptions): Answer<WebhookRecovery> {
    return this.send('POST', `/v1/webhook_endpoints/${part(id)}/recover`, { body, key: 'header' }, options)
  }

  /**
   * Rotate the secret.
   *
   * Makes a new secret, which is in this answer and in no other. Meanwhile requests carry a signature of
   * each secret that still signs; with `grace_s` 0 only the new one does.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_endpoints/{id}/rotate_secret`
   */
  rotateSecret(id: string, body?: RotateWebhookSecret, options?: RequestOptions): Answer<WebhookEndpoint> {
    return this.send(
      'POST',
      `/v1/webhook_endpoints/${part(id)}/rotate_secret`,
      { body, key: 'header' },
      options,
    )
  }

  /**
   * What came of its deliveries.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/webhook_endpoints/{id}/stats`
   */
  stats(id: string, options?: RequestOptions): Answer<WebhookEndpointStats> {
    return this.send('GET', `/v1/webhook_endpoints/${part(id)}/stats`, {}, options)
  }

  /**
   * Send a test.
   *
   * Sends an event with example data, once, also where the endpoint is disabled. It is no part of the
   * feed: its `sequence` is null, and its event cannot be retrieved. It counts in no statistics. One
   * that fails ends `exhausted`; a 410 to it does not disable the endpoint. At most 10 tests and replays
   * of an endpoint, and 20 of all yours, wait or are under way.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_endpoints/{id}/test`
   */
  test(id: string, body?: TestWebhookEndpoint, options?: RequestOptions): Answer<WebhookDelivery> {
    return this.send('POST', `/v1/webhook_endpoints/${part(id)}/test`, { body, key: 'header' }, options)
  }
}
