// `sluice.merchants`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { CreateMerchant, Merchant, UpdateMerchant } from '../schemas.ts'

/** Query parameters of `merchants.list`. */
export interface ListMerchantsQuery {
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
  /**
   * List archived ones instead of the others.
   *
   * `Default: `false`.
   */
  archived?: boolean
}

/** The businesses you take payments for. */
export class MerchantsResource extends Resource {
  /**
   * Create a merchant.
   *
   * Needs the scope `merchants:write`.
   *
   * `POST /v1/merchants`
   */
  create(body: CreateMerchant, options?: RequestOptions): Answer<Merchant> {
    return this.send('POST', '/v1/merchants', { body, key: 'header' }, options)
  }

  /**
   * List merchants, newest first.
   *
   * Needs the scope `merchants:read`.
   *
   * `GET /v1/merchants`
   */
  list(query?: ListMerchantsQuery, options?: RequestOptions): Pages<Merchant> {
    return this.pages('/v1/merchants', query, options)
  }

  /**
   * Retrieve a merchant.
   *
   * Also returns archived merchants.
   *
   * Needs the scope `merchants:read`.
   *
   * `GET /v1/merchants/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Merchant> {
    return this.send('GET', `/v1/merchants/${pathSegment(id)}`, {}, options)
  }

  /**
   * Update a merchant.
   *
   * Fields that you leave out stay unchanged.
   *
   * Needs the scope `merchants:write`.
   *
   * `PATCH /v1/merchants/{id}`
   */
  update(id: string, body?: UpdateMerchant, options?: RequestOptions): Answer<Merchant> {
    return this.send('PATCH', `/v1/merchants/${pathSegment(id)}`, { body }, options)
  }

  /**
   * Archive a merchant.
   *
   * No new payment can name the merchant. It is retained for the books, and is listed only with
   * `archived=true`. Archiving it again changes nothing.
   *
   * Needs the scope `merchants:write`.
   *
   * `DELETE /v1/merchants/{id}`
   */
  archive(id: string, options?: RequestOptions): Answer<Merchant> {
    return this.send('DELETE', `/v1/merchants/${pathSegment(id)}`, {}, options)
  }
}
