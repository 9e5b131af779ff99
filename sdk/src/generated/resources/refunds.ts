// `sluice.refunds`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { CreateRefund, Refund, RefundStatus } from '../schemas.ts'

/** Query parameters of `refunds.list`. */
export interface ListRefundsQuery {
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

/** Query parameters of `refunds.listAll`. */
export interface ListAllRefundsQuery {
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
  status?: RefundStatus
  /** Filter by currency. */
  currency?: string
  /** Filter by the processor's own id. */
  processor_reference?: string
}

/** Give money back, in full or in parts. */
export class RefundsResource extends Resource {
  /**
   * Refund a payment.
   *
   * Refunds all or a part of the captured amount. Refunds can never exceed the captured amount together,
   * even if they are requested at the same time. A refund that succeeded may still fail up to 30 days
   * later; then the amount is returned to your balance.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
   *
   * Needs the scope `payments:write`.
   *
   * `POST /v1/payments/{id}/refunds`
   */
  create(payment_id: string, body: CreateRefund, options?: RequestOptions): Answer<Refund> {
    return this.send(
      'POST',
      `/v1/payments/${pathSegment(payment_id)}/refunds`,
      { body, key: 'header' },
      options,
    )
  }

  /**
   * List the refunds of a payment, newest first.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/payments/{id}/refunds`
   */
  list(payment_id: string, query?: ListRefundsQuery, options?: RequestOptions): Pages<Refund> {
    return this.pages(`/v1/payments/${pathSegment(payment_id)}/refunds`, query, options)
  }

  /**
   * List all refunds, newest first.
   *
   * Lists the refunds of all payments, including those made in the processor's dashboard.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/refunds`
   */
  listAll(query?: ListAllRefundsQuery, options?: RequestOptions): Pages<Refund> {
    return this.pages('/v1/refunds', query, options)
  }

  /**
   * Retrieve a refund.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/refunds/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Refund> {
    return this.send('GET', `/v1/refunds/${pathSegment(id)}`, {}, options)
  }
}
