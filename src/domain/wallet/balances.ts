// The balances of a wallet: the total, the amount reserved for payouts, and the available amount.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { lowerCurrency } from '#core/money.ts'
import { listBalances } from '../ledger.ts'

const amount = (description: string, example: number) => z.int().meta({ description, example })

export const walletBalanceSchema = z
  .object({
    currency: lowerCurrency,
    balance_minor: amount('The sum of all transactions. It can be negative, e.g. after a refund.', 12_000),
    pending_payouts_minor: amount(
      'The amount that payouts have reserved: the sum of those that are `pending` or `processing`.',
      2_000,
    ),
    available_minor: amount(
      '`balance_minor` minus `pending_payouts_minor`: the amount that can be paid out.',
      10_000,
    ),
  })
  .meta({ id: 'WalletBalance', description: 'Your balance in one currency.' })

export type WalletBalance = z.output<typeof walletBalanceSchema>

/** The balances of a tenant, ordered by currency. `currency` (upper or lower case) limits them to one. */
export async function listWalletBalances(
  sql: Sql,
  tenant_id: string,
  currency?: string,
): Promise<WalletBalance[]> {
  const accounts = await listBalances(sql, tenant_id)
  return accounts
    .filter((account) => account.name === 'available')
    .filter((account) => currency === undefined || account.currency === currency.toUpperCase())
    .map(({ currency: code, balance_minor, reserved_minor }) => ({
      currency: code.toLowerCase(),
      balance_minor,
      pending_payouts_minor: reserved_minor,
      available_minor: balance_minor - reserved_minor,
    }))
}
