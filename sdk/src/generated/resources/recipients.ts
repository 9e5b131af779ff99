// `sluice.recipients`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { CreateRecipient, Recipient, RecipientType, UpdateRecipient } from '../schemas.ts'

/** Query parameters of `recipients.list`. */
export interface ListRecipientsQuery {
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
  /** Filter by email; must match exactly. */
  email?: string
  /** Filter by type. */
  type?: RecipientType
  /** Filter by currency. */
  currency?: string
  /**
   * List archived ones instead of the others.
   *
   * `Default: `false`.
   */
  archived?: boolean
}

/** The people and companies you pay. */
export class RecipientsResource extends Resource {
  /**
   * Create a recipient.
   *
   * Needs the scope `recipients:write`.
   *
   * `POST /v1/recipients`
   */
  create(body: CreateRecipient, options?: RequestOptions): Answer<Recipient> {
    return this.send('POST', '/v1/recipients', { body, key: 'header' }, options)
  }

  /**
   * List recipients, newest first.
   *
   * Needs the scope `recipients:read`.
   *
   * `GET /v1/recipients`
   */
  list(query?: ListRecipientsQuery, options?: RequestOptions): Pages<Recipient> {
    return this.pages('/v1/recipients', query, options)
  }

  /**
   * Retrieve a recipient.
   *
   * Also returns archived recipients.
   *
   * Needs the scope `recipients:read`.
   *
   * `GET /v1/recipients/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Recipient> {
    return this.send('GET', `/v1/recipients/${pathSegment(id)}`, {}, options)
  }

  /**
   * Update a recipient.
   *
   * Fields that you leave out stay unchanged. The destination cannot be changed: archive the recipient
   * and create another.
   *
   * Needs the scope `recipients:write`.
   *
   * `PATCH /v1/recipients/{id}`
   */
  update(id: string, body?: UpdateRecipient, options?: RequestOptions): Answer<Recipient> {
    return this.send('PATCH', `/v1/recipients/${pathSegment(id)}`, { body }, options)
  }

  /**
   * Archive a recipient.
   *
   * No new payout can go to the recipient. It is retained for the books, and is listed only with
   * `archived=true`. Archiving it again changes nothing.
   *
   * Needs the scope `recipients:write`.
   *
   * `DELETE /v1/recipients/{id}`
   */
  archive(id: string, options?: RequestOptions): Answer<Recipient> {
    return this.send('DELETE', `/v1/recipients/${pathSegment(id)}`, {}, options)
  }
}
