// `sluice.wallet`.

import { Resource } from '../../resource.ts'
import { WalletBalancesResource } from './wallet/balances.ts'
import { WalletTopUpsResource } from './wallet/top-ups.ts'
import { WalletTransactionsResource } from './wallet/transactions.ts'

/** Your balances, and what moved them. */
export class WalletResource extends Resource {
  readonly balances = new WalletBalancesResource(this.client)
  /** Money that you bring into your balance. */
  readonly topUps = new WalletTopUpsResource(this.client)
  readonly transactions = new WalletTransactionsResource(this.client)
}
