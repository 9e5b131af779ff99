// `sluice.messages.suppressions`.

import type { Answer } from '../../../answer.ts'
import type { RequestOptions } from '../../../client.ts'
import type { Pages } from '../../../pages.ts'
import { pathSegment, Resource } from '../../../resource.ts'
import type { Channel, CreateSuppression, Suppression, SuppressionReason } from '../../schemas.ts'

/** Query parameters of `messages.suppressions.list`. */
export interface ListSuppressionsQuery {
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
  /** Filter by channel. */
  channel?: Channel
  /** Filter by address or number. */
  address?: string
  /** Filter by reason. */
  reason?: SuppressionReason
}

/** Addresses and numbers that no longer get messages. */
export class MessagesSuppressionsResource extends Resource {
  /**
   * Suppress an address.
   *
   * Nothing is sent to the address any more, including messages that were accepted before and have not
   * been sent. If you have already suppressed the address, the answer is 200 with the existing
   * suppression. A suppression with another reason does not prevent a new one.
   *
   * Needs the scope `messaging:write`.
   *
   * `POST /v1/messages/suppressions`
   */
  create(body: CreateSuppression, options?: RequestOptions): Answer<Suppression> {
    return this.send('POST', '/v1/messages/suppressions', { body, key: 'header' }, options)
  }

  /**
   * List suppressions, newest first.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/suppressions`
   */
  list(query?: ListSuppressionsQuery, options?: RequestOptions): Pages<Suppression> {
    return this.pages('/v1/messages/suppressions', query, options)
  }

  /**
   * Retrieve a suppression.
   *
   * Needs the scope `messaging:read`.
   *
   * `GET /v1/messages/suppressions/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Suppression> {
    return this.send('GET', `/v1/messages/suppressions/${pathSegment(id)}`, {}, options)
  }

  /**
   * Lift a suppression.
   *
   * The address gets messages again, unless it has another suppression. The address is erased when the
   * event `suppression.deleted` is no longer retained. The provider refuses to send to a number that
   * replied STOP until it replies START. The answer is the deleted suppression.
   *
   * Needs the scope `messaging:write`.
   *
   * `DELETE /v1/messages/suppressions/{id}`
   */
  delete(id: string, options?: RequestOptions): Answer<Suppression> {
    return this.send('DELETE', `/v1/messages/suppressions/${pathSegment(id)}`, {}, options)
  }
}
