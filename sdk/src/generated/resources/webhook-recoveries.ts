// `sluice.webhookRecoveries`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { WebhookRecovery } from '../schemas.ts'

export class WebhookRecoveriesResource extends Resource {
  /**
   * Retrieve a recovery.
   *
   * Shows the progress of the recovery.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/webhook_recoveries/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<WebhookRecovery> {
    return this.send('GET', `/v1/webhook_recoveries/${pathSegment(id)}`, {}, options)
  }
}
