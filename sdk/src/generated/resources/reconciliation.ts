// `sluice.reconciliation`.

import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { Resource } from '../../resource.ts'
import type { Drift, DriftState, DriftSubject } from '../schemas.ts'

/** What `reconciliation.list` can be asked for. */
export interface ListDriftsQuery {
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
  /** Only those of this state. */
  state?: DriftState
  /** Only those of payments, for example. */
  subject?: DriftSubject
  /** Only those of one payment and its refunds. */
  payment_id?: string
}

/** Where our books and the processor are known to differ. */
export class ReconciliationResource extends Resource {
  /**
   * List open drifts.
   *
   * What the processor sees otherwise than we do, or of which nobody knows whether a call took effect:
   * what we think, what the processor says, and since when. Shown are payments, refunds and disputes;
   * payouts only to a key with `payouts:read`, top-ups with `wallet:read`, verifications with
   * `compliance:read`. The processor is asked again after 5 s, 1, 5 and 30 minutes, 2 hours and then
   * daily; what is mended is no longer listed. Empty when all agree.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/reconciliation`
   */
  list(query?: ListDriftsQuery, options?: RequestOptions): Pages<Drift> {
    return this.pages('/v1/reconciliation', query, options)
  }
}
