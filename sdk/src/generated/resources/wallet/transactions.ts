// `sluice.wallet.transactions`.

import type { RequestOptions } from '../../../client.ts'
import type { Pages } from '../../../pages.ts'
import { Resource } from '../../../resource.ts'
import type { WalletTransaction, WalletTransactionKind } from '../../schemas.ts'

/** Query parameters of `wallet.transactions.list`. */
export interface ListWalletTransactionsQuery {
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
  /** Only this currency, in upper or lower case. */
  currency?: string
  /** Filter by kind. */
  kind?: WalletTransactionKind
  /** Filter by payment, refund, dispute, top-up or payout. */
  subject_id?: string
}

export class WalletTransactionsResource extends Resource {
  /**
   * List transactions, newest first.
   *
   * Lists every change of a balance in the order in which it happened. In each currency,
   * `balance_after_minor` is the `balance_after_minor` of the previous transaction plus `amount_minor`.
   * Transactions of the same moment come on the same page, so there may be a few more than `limit`.
   *
   * Needs the scope `wallet:read`.
   *
   * `GET /v1/wallet/transactions`
   */
  list(query?: ListWalletTransactionsQuery, options?: RequestOptions): Pages<WalletTransaction> {
    return this.pages('/v1/wallet/transactions', query, options)
  }
}
