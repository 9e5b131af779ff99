// `sluice.idempotencyKeys`.

import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { AcceptedRequest } from '../schemas.ts'

/** Query parameters of `idempotencyKeys.list`. */
export interface GetIdempotencyKeyQuery {
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

/** The outcome of a request whose answer was lost. */
export class IdempotencyKeysResource extends Resource {
  /**
   * Look up an idempotency key.
   *
   * Lists the requests that were accepted with this key, newest first. If you did not receive the answer
   * to a request, the list shows whether the request was accepted. Keys are retained for 30 days.
   * Requests accepted at the same moment come on the same page.
   *
   * Needs a valid key and no scope.
   *
   * `GET /v1/idempotency_keys/{key}`
   */
  list(key: string, query?: GetIdempotencyKeyQuery, options?: RequestOptions): Pages<AcceptedRequest> {
    return this.pages(`/v1/idempotency_keys/${pathSegment(key)}`, query, options)
  }
}
