// `sluice.payouts`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { part, Resource } from '../../resource.ts'
import type {
  CancelPayout,
  CreatePayout,
  FailPayout,
  Payout,
  PayoutStatus,
  TimelineEntry,
} from '../schemas.ts'

/** What `payouts.list` can be asked for. */
export interface ListPayoutsQuery {
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
  /** Only those of this status. */
  status?: PayoutStatus
  /** Only those to this recipient. */
  recipient_id?: string
  /** Only those in this currency. */
  currency?: string
}

/** What `payouts.timeline` can be asked for. */
export interface GetPayoutTimelineQuery {
  /** The `at` of the first entry of the page that came after. */
  before?: string
  /**
   * Page size.
   *
   * `100` unless said otherwise.
   */
  limit?: number
}

/** Money that leaves your balance for a recipient. Its amount is reserved at once. */
export class PayoutsResource extends Resource {
  /**
   * Create a payout.
   *
   * Pays a recipient out of your available balance: the balance in that currency less what other payouts
   * have reserved. The amount is compared and reserved in one step, so payouts that are asked for at
   * once can never take more than there is. Who asks it to wait is answered when the processor has taken
   * or refused it.
   *
   * Answers what was accepted and does not wait for it, unless `Prefer: wait=N` (at most 30) asks to;
   * what is not finished by then answers 202.
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
    return this.send('GET', `/v1/payouts/${part(id)}`, {}, options)
  }

  /**
   * Cancel a payout.
   *
   * A payout that has not left us is canceled at once. One that the processor has taken is canceled if
   * the processor still lets go of it, and is refused (409) if not. While it is not known whether the
   * processor has it, the wish is recorded (202) and follows. A second cancellation while one is under
   * way joins it.
   *
   * Waits for the provider (10 s; `Prefer: wait=N`, at most 30, or `respond-async`); what is not
   * finished by then answers 202.
   *
   * Needs the scope `payouts:write`.
   *
   * `POST /v1/payouts/{id}/cancel`
   */
  cancel(id: string, body?: CancelPayout, options?: RequestOptions): Answer<Payout> {
    return this.send('POST', `/v1/payouts/${part(id)}/cancel`, { body, key: 'header' }, options)
  }

  /**
   * Fail a payout by hand.
   *
   * Marks a payout as failed at once, whatever the processor does, which is not asked, and frees what it
   * reserved; if the processor is being asked to take it at this moment, as soon as that is answered. A
   * payout that has not left us is not sent any more. If the processor pays it all the same, it stays
   * `failed`, the money is taken from your balance, which may become negative, and a drift says so.
   *
   * Needs the scope `payouts:write`.
   *
   * `POST /v1/payouts/{id}/fail`
   */
  fail(id: string, body: FailPayout, options?: RequestOptions): Answer<Payout> {
    return this.send('POST', `/v1/payouts/${part(id)}/fail`, { body, key: 'header' }, options)
  }

  /**
   * Explain a payout.
   *
   * Every attempt, provider answer, webhook, ledger posting and event of the payout, oldest first: the
   * last `limit` of them, or the last before `before`. Entries of one moment are never parted, so there
   * may be a few more than `limit`. A full page links to what came before it.
   *
   * Needs the scope `payouts:read`.
   *
   * `GET /v1/payouts/{id}/timeline`
   */
  timeline(id: string, query?: GetPayoutTimelineQuery, options?: RequestOptions): Pages<TimelineEntry> {
    return this.pages(`/v1/payouts/${part(id)}/timeline`, query, options)
  }
}
