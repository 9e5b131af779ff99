// `sluice.reconciliation`.

import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { Resource } from '../../resource.ts'
import type { Drift, DriftState, DriftSubject } from '../schemas.ts'

/** Query parameters of `reconciliation.list`. */
export interface ListDriftsQuery {
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
  /** Filter by state. */
  state?: DriftState
  /** Filter by type of resource. */
  subject?: DriftSubject
  /** Filter by payment; includes its refunds. */
  payment_id?: string
}

/** Known differences between our books and the processor's. */
export class ReconciliationResource extends Resource {
  /**
   * List open drifts.
   *
   * Lists resources whose record at the processor differs from ours, and resources with a call of
   * unknown outcome. Each drift has our record, the processor's record and the time of its detection.
   * The list shows payments, refunds and disputes; payouts only to a key with `payouts:read`, top-ups
   * with `wallet:read`, verifications with `compliance:read`. The processor is queried again after 5 s,
   * 1, 5 and 30 minutes, 2 hours and then daily; a resolved drift is no longer listed. The list is empty
   * if everything agrees.
   *
   * Needs the scope `payments:read`.
   *
   * `GET /v1/reconciliation`
   */
  list(query?: ListDriftsQuery, options?: RequestOptions): Pages<Drift> {
    return this.pages('/v1/reconciliation', query, options)
  }
}
