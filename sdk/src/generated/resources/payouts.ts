// `sluice.payouts`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type {
  CancelPayout,
  CreatePayout,
  FailPayout,
  Payout,
  PayoutStatus,
  TimelineEntry,
} from '../schemas.ts'

/** Query parameters of `payouts.list`. */
export interface ListPayoutsQuery {
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
  status?: PayoutStatus
  /** Filter by recipient. */
  recipient_id?: string
  /** Filter by currency. */
  currency?: string
}

/** Query parameters of `payouts.timeline`. */
export interface GetPayoutTimelineQuery {
  /** The `at` of the first entry of the later page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `100`.
   */
  limit?: number
}

/** Pay a recipient from your balance. The amount is reserved at once. */
export class PayoutsResource extends Resource {
  /**
   * Create a payout.
   *
   * Pays a recipient from your available balance: the balance in that currency minus what other payouts
   * have reserved. The amount is checked and reserved in one step, so concurrent payouts can never take
   * more than is available. If the request waits, it is answered when the processor has accepted or
   * refused the payout.
   *
   * Answers with the accepted resource and does not wait, unless you send `Prefer: wait=N` (at most 30).
   * If the work is not finished by then, the answer is 202.
   *
   * Needs the scope `payouts:write`.
   *
   * `POST /v1/payouts`
   */
  create(body: CreatePayout, options?: RequestOptions): Answer<Payout> {
    return this.send('POST', '/v1/payouts', { body, key: 'header' }, options)
  }

  /**
   * List payouts, newest first.
   *
   * Needs the scope `payouts:read`.
   *
   * `GET /v1/payouts`
   */
  list(query?: ListPayoutsQuery, options?: RequestOptions): Pages<Payout> {
    return this.pages('/v1/payouts', query, options)
  }

  /**
   * Retrieve a payout.
   *
   * Needs the scope `payouts:read`.
   *
   * `GET /v1/payouts/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Payout> {
    return this.send('GET', `/v1/payouts/${pathSegment(id)}`, {}, options)
  }

  /**
   * Cancel a payout.
   *
   * Cancels a payout at once if it has not been sent to the processor. A payout that the processor has
   * accepted is canceled if the processor still allows it; otherwise the request is refused (409). While
   * it is unknown whether the processor has the payout, the cancellation is recorded (202) and carried
   * out later. A cancellation joins an earlier one that is in progress. It also joins a requested manual
   * failure: then the payout ends as `failed`.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`). If the work is not
   * finished by then, the answer is 202.
   *
   * Needs the scope `payouts:write`.
   *
   * `POST /v1/payouts/{id}/cancel`
   */
  cancel(id: string, body?: CancelPayout, options?: RequestOptions): Answer<Payout> {
    return this.send('POST', `/v1/payouts/${pathSegment(id)}/cancel`, { body, key: 'header' }, options)
  }

  /**
   * Fail a payout manually.
   *
   * Fails a payout as soon as it can no longer be paid. A payout that was never sent, or that the
   * processor always refused, is `failed` at once (200): its amount is released, and it will not be
   * sent. If a call is in progress, its outcome is unknown or the processor has accepted the payout, the
   * request is recorded (202, `fail_requested_at`), and the payout is canceled at the processor. It then
   * becomes `failed` when the processor refuses, cancels, fails or returns it, or `paid` if the
   * processor pays it; then the request has no effect (event `payout.fail_overtaken`). Transfers are not
   * canceled at the processor and never reversed. A second request joins the first. A request also joins
   * an earlier cancellation: then the payout ends as `canceled` if the processor cancels it. With
   * `Prefer: wait=N` the answer comes when the payout is final: 200, or 409 if it was paid.
   *
   * Answers with the accepted resource and does not wait, unless you send `Prefer: wait=N` (at most 30).
   * If the work is not finished by then, the answer is 202.
   *
   * Needs the scope `payouts:write`.
   *
   * `POST /v1/payouts/{id}/fail`
   */
  fail(id: string, body: FailPayout, options?: RequestOptions): Answer<Payout> {
    return this.send('POST', `/v1/payouts/${pathSegment(id)}/fail`, { body, key: 'header' }, options)
  }

  /**
   * Retrieve the timeline of a payout.
   *
   * Every attempt, provider answer, webhook, ledger posting and event of the payout, oldest first: the
   * last `limit` entries, or the last `limit` before `before`. Entries of the same moment come on the
   * same page, so there may be a few more than `limit`. A full page links to the previous entries.
   *
   * Needs the scope `payouts:read`.
   *
   * `GET /v1/payouts/{id}/timeline`
   */
  timeline(id: string, query?: GetPayoutTimelineQuery, options?: RequestOptions): Pages<TimelineEntry> {
    return this.pages(`/v1/payouts/${pathSegment(id)}/timeline`, query, options)
  }
}
