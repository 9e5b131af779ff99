// `sluice.disputes`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { Dispute, DisputeStatus } from '../schemas.ts'

/** Query parameters of `disputes.list`. */
export interface ListDisputesQuery {
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
  status?: DisputeStatus
  /** Filter by payment. */
  payment_id?: string
}

/** Money that a buyer's bank asks back from you. */
export class DisputesResource extends Resource {
  /**
   * List disputes, newest first.
   *
   * The buyer's bank opens a dispute, and you answer it in the processor's dashboard. Here you see its
   * status and the amount that it took from your balance.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/disputes`
   */
  list(query?: ListDisputesQuery, options?: RequestOptions): Pages<Dispute> {
    return this.pages('/v1/disputes', query, options)
  }

  /**
   * Retrieve a dispute.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/disputes/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<Dispute> {
    return this.send('GET', `/v1/disputes/${pathSegment(id)}`, {}, options)
  }
}
