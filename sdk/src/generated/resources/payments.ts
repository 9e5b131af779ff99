// `sluice.payments`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { FeedEvent } from '../events.ts'
import type {
  CancelPayment,
  CapturePayment,
  CreatePayment,
  Payment,
  PaymentStatus,
  TimelineEntry,
} from '../schemas.ts'

/** Query parameters of `payments.list`. */
export interface ListPaymentsQuery {
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
  status?: PaymentStatus
  /** Filter by customer. */
  customer_id?: string
  /** Filter by merchant. */
  merchant_id?: string
  /** Filter by currency. */
  currency?: string
  /** Filter by the processor's own id. */
  processor_reference?: string
  /** Payments with at least this `amount_minor`. */
  amount_min?: number
  /** Payments with at most this `amount_minor`. */
  amount_max?: number
  /** Authorized payments whose hold lapses before this time. */
  capture_before_to?: string
  /**
   * `metadata[key]=value`: payments whose metadata has this value at the top level; at most 20 such
   * filters.
   */
  metadata?: Record<string, string>
}

/** Query parameters of `payments.events`. */
export interface ListPaymentEventsQuery {
  /** The `created_at` of the last item of the previous page. */
  after?: string
  /**
   * Page size.
   *
   * `Default: `25`.
   */
  limit?: number
}

/** Query parameters of `payments.timeline`. */
export interface GetPaymentTimelineQuery {
  /** The `at` of the first entry of the later page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `100`.
   */
  limit?: number
}

/**
 * Authorize, capture and cancel payments. Creating a payment holds the money; capturing it takes the
 * money.
 */
export class PaymentsResource extends Resource {
  /**
   * Create a payment.
   *
   * Authorizes a payment: the amount is on hold until you capture or cancel it.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
   *
   * Needs the scope `payments:write`.
   *
   * `POST /v1/payments`
   */
  create(body: CreatePayment, options?: RequestOptions): Answer<Payment> {
    return this.send('POST', '/v1/payments', { body, key: 'header' }, options)
  }

  /**
   * List payments, newest first.
   *
   * Strongly consistent: the list shows a payment's new status as soon as the request that changed it is
   * answered.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/payments`
   */
  list(query?: ListPaymentsQuery, options?: RequestOptions): Pages<Payment> {
    return this.pages('/v1/payments', query, options)
  }

  /**
   * Retrieve a payment.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/payments/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Payment> {
    return this.send('GET', `/v1/payments/${pathSegment(id)}`, {}, options)
  }

  /**
   * Cancel a payment.
   *
   * Releases the amount on hold. While the authorization is still in progress, the cancellation is
   * recorded (202), and the hold is voided as soon as it exists. A second cancellation while one is in
   * progress joins it, unless it names another reason.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
   *
   * Needs the scope `payments:write`.
   *
   * `POST /v1/payments/{id}/cancel`
   */
  cancel(id: string, body?: CancelPayment, options?: RequestOptions): Answer<Payment> {
    return this.send('POST', `/v1/payments/${pathSegment(id)}/cancel`, { body, key: 'header' }, options)
  }

  /**
   * Capture a payment.
   *
   * Captures the amount on hold, or captures a part and releases the rest. The body is optional.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
   *
   * Needs the scope `payments:write`.
   *
   * `POST /v1/payments/{id}/capture`
   */
  capture(id: string, body?: CapturePayment, options?: RequestOptions): Answer<Payment> {
    return this.send('POST', `/v1/payments/${pathSegment(id)}/capture`, { body, key: 'header' }, options)
  }

  /**
   * List the events of a payment, oldest first.
   *
   * Includes the events of its refunds and disputes, and events that are not in the feed yet. Events of
   * the same moment come on the same page, so there may be a few more than `limit`.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/payments/{id}/events`
   */
  events(id: string, query?: ListPaymentEventsQuery, options?: RequestOptions): Pages<FeedEvent> {
    return this.pages(`/v1/payments/${pathSegment(id)}/events`, query, options)
  }

  /**
   * Retrieve the timeline of a payment.
   *
   * Every attempt, provider answer, webhook, ledger posting and event of the payment and its refunds,
   * oldest first: the last `limit` entries, or the last `limit` before `before`. Entries of the same
   * moment come on the same page, so there may be a few more than `limit`. A full page links to the
   * previous entries.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/payments/{id}/timeline`
   */
  timeline(id: string, query?: GetPaymentTimelineQuery, options?: RequestOptions): Pages<TimelineEntry> {
    return this.pages(`/v1/payments/${pathSegment(id)}/timeline`, query, options)
  }
}
