// `sluice.webhookEndpoints`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
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

/** Query parameters of `webhookEndpoints.list`. */
export interface ListWebhookEndpointsQuery {
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
}

/** URLs that your events are sent to. */
export class WebhookEndpointsResource extends Resource {
  /**
   * Create a webhook endpoint.
   *
   * From now on, events are sent to this URL, signed according to Standard Webhooks. Only this answer
   * shows the secret. You can have at most 20 endpoints.
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
    return this.send('GET', `/v1/webhook_endpoints/${pathSegment(id)}`, {}, options)
  }

  /**
   * Update a webhook endpoint.
   *
   * Fields that you leave out stay unchanged; null removes `rate_per_s` or `description`. Events that
   * happen while the endpoint is disabled are skipped, and so are all deliveries that wait when you
   * disable it, whenever they are due. Enabling the endpoint does not send these deliveries; a recovery
   * does. Disabling ends a recovery that is in progress. An endpoint that was disabled automatically can
   * be enabled in the same way.
   *
   * Needs the scope `webhooks:write`.
   *
   * `PATCH /v1/webhook_endpoints/{id}`
   */
  update(id: string, body?: UpdateWebhookEndpoint, options?: RequestOptions): Answer<WebhookEndpoint> {
    return this.send('PATCH', `/v1/webhook_endpoints/${pathSegment(id)}`, { body }, options)
  }

  /**
   * Delete a webhook endpoint.
   *
   * Nothing is sent to the endpoint any more, and its deliveries can no longer be read. The answer is
   * the deleted endpoint.
   *
   * Needs the scope `webhooks:write`.
   *
   * `DELETE /v1/webhook_endpoints/{id}`
   */
  delete(id: string, options?: RequestOptions): Answer<WebhookEndpoint> {
    return this.send('DELETE', `/v1/webhook_endpoints/${pathSegment(id)}`, {}, options)
  }

  /**
   * Send failed deliveries again.
   *
   * Sends again the deliveries that were created in this period and are `failed`, `exhausted`,
   * `skipped`, or pending after a failed attempt, even if the endpoint is disabled. Each delivery
   * restarts its retry schedule; its `attempts` continue to count. The recovery ends if the endpoint is
   * disabled after the recovery was created. An endpoint can have one recovery at a time.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_endpoints/{id}/recover`
   */
  recover(id: string, body: RecoverWebhookEndpoint, options?: RequestOptions): Answer<WebhookRecovery> {
    return this.send(
      'POST',
      `/v1/webhook_endpoints/${pathSegment(id)}/recover`,
      { body, key: 'header' },
      options,
    )
  }

  /**
   * Rotate the secret.
   *
   * Creates a new secret; only this answer shows it. During the grace period, requests have a signature
   * for each secret that is still valid. With `grace_s` 0, only the new secret is valid.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_endpoints/{id}/rotate_secret`
   */
  rotateSecret(id: string, body?: RotateWebhookSecret, options?: RequestOptions): Answer<WebhookEndpoint> {
    return this.send(
      'POST',
      `/v1/webhook_endpoints/${pathSegment(id)}/rotate_secret`,
      { body, key: 'header' },
      options,
    )
  }

  /**
   * Retrieve delivery statistics.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/webhook_endpoints/{id}/stats`
   */
  stats(id: string, options?: RequestOptions): Answer<WebhookEndpointStats> {
    return this.send('GET', `/v1/webhook_endpoints/${pathSegment(id)}/stats`, {}, options)
  }

  /**
   * Send a test.
   *
   * Sends an event with example data once, even if the endpoint is disabled. It is not part of the feed:
   * its `sequence` is null, and its event cannot be retrieved. Statistics do not count it. A test that
   * fails becomes `exhausted`; a 410 to a test does not disable the endpoint. At most 10 tests and
   * replays of an endpoint, and 20 of all your endpoints, may wait or be in progress.
   *
   * Needs the scope `webhooks:write`.
   *
   * `POST /v1/webhook_endpoints/{id}/test`
   */
  test(id: string, body?: TestWebhookEndpoint, options?: RequestOptions): Answer<WebhookDelivery> {
    return this.send(
      'POST',
      `/v1/webhook_endpoints/${pathSegment(id)}/test`,
      { body, key: 'header' },
      options,
    )
  }
}
