// `sluice.wallet.balances`.

import type { Answer } from '../../../answer.ts'
import type { RequestOptions } from '../../../client.ts'
import { Resource } from '../../../resource.ts'
import type { WalletBalance } from '../../schemas.ts'

/** Query parameters of `wallet.balances.list`. */
export interface ListWalletBalancesQuery {
  /** Only this currency, in upper or lower case. */
  currency?: string
}

export class WalletBalancesResource extends Resource {
  /**
   * List balances, by currency.
   *
   * A currency without any transaction is not listed.
   *
   * Needs the scope `wallet:read`.
   *
   * `GET /v1/wallet/balances`
   */
  list(query?: ListWalletBalancesQuery, options?: RequestOptions): Answer<WalletBalance[]> {
    return this.send('GET', '/v1/wallet/balances', { query }, options)
  }
}
