// `sluice.wallet.topUps`.

import type { Answer } from '../../../answer.ts'
import type { RequestOptions } from '../../../client.ts'
import type { Pages } from '../../../pages.ts'
import { pathSegment, Resource } from '../../../resource.ts'
import type { CreateTopUp, TimelineEntry, TopUp, TopUpStatus } from '../../schemas.ts'

/** Query parameters of `wallet.topUps.list`. */
export interface ListTopUpsQuery {
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
  status?: TopUpStatus
  /** Filter by currency. */
  currency?: string
}

/** Query parameters of `wallet.topUps.timeline`. */
export interface GetTopUpTimelineQuery {
  /** The `at` of the first entry of the later page. */
  before?: string
  /**
   * Page size.
   *
   * `Default: `100`.
   */
  limit?: number
}

/** A top-up: money that you add to your balance. */
export class WalletTopUpsResource extends Resource {
  /**
   * Top up a balance.
   *
   * Adds money to your balance through the processor, which can take days: the top-up is `pending` until
   * the money has arrived. With `Prefer: wait`, the answer comes when the processor has accepted or
   * refused it.
   *
   * Answers with the accepted resource and does not wait, unless you send `Prefer: wait=N` (at most 30).
   * If the work is not finished by then, the answer is 202.
   *
   * Needs the scope `wallet:write`.
   *
   * `POST /v1/wallet/top_ups`
   */
  create(body: CreateTopUp, options?: RequestOptions): Answer<TopUp> {
    return this.send('POST', '/v1/wallet/top_ups', { body, key: 'header' }, options)
  }

  /**
   * List top-ups, newest first.
   *
   * Needs the scope `wallet:read`.
   *
   * `GET /v1/wallet/top_ups`
   */
  list(query?: ListTopUpsQuery, options?: RequestOptions): Pages<TopUp> {
    return this.pages('/v1/wallet/top_ups', query, options)
  }

  /**
   * Retrieve a top-up.
   *
   * Needs the scope `wallet:read`.
   *
   * `GET /v1/wallet/top_ups/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<TopUp> {
    return this.send('GET', `/v1/wallet/top_ups/${pathSegment(id)}`, {}, options)
  }

  /**
   * Retrieve the timeline of a top-up.
   *
   * Every attempt, provider answer, webhook, ledger posting and event of the top-up, oldest first: the
   * last `limit` entries, or the last `limit` before `before`. Entries of the same moment come on the
   * same page, so there may be a few more than `limit`. A full page links to the previous entries.
   *
   * Needs the scope `wallet:read`.
   *
   * `GET /v1/wallet/top_ups/{id}/timeline`
   */
  timeline(id: string, query?: GetTopUpTimelineQuery, options?: RequestOptions): Pages<TimelineEntry> {
    return this.pages(`/v1/wallet/top_ups/${pathSegment(id)}/timeline`, query, options)
  }
}
