// `sluice.wallet`.

import { Resource } from '../../resource.ts'
import { WalletBalancesResource } from './wallet/balances.ts'
import { WalletTopUpsResource } from './wallet/top-ups.ts'
import { WalletTransactionsResource } from './wallet/transactions.ts'

/** Your balances and their transactions. */
export class WalletResource extends Resource {
  readonly balances = new WalletBalancesResource(this.client)
  /** A top-up: money that you add to your balance. */
  readonly topUps = new WalletTopUpsResource(this.client)
  readonly transactions = new WalletTransactionsResource(this.client)
}
