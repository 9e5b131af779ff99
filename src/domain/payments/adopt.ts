// Adopts the processor's payment of a lost request.
import type { Sql } from '#core/db.ts'
import { openingAccounts } from '../ledger.ts'
import { settleAdoptions, type AdoptionSettlement } from '../recovered/adopt.ts'
import { recoverParty } from '../recovered/parties.ts'
import { settlePayments, type PaymentSettlement } from './settle.ts'

export type PaymentAdoption = PaymentSettlement & AdoptionSettlement

/** Settles payments that take the content of the processor's payment. */
export async function adoptPayments(sql: Sql, settlements: PaymentAdoption[]): Promise<Set<string>> {
  return await settleAdoptions(sql, 'payment', settlements, settlePayments, async (tx, { adopted }, take) => {
    const { tenant_id, currency } = adopted
    const { customer_id, merchant_id } = adopted.columns
    if (typeof customer_id === 'string') await recoverParty(tx, 'customer', { tenant_id, id: customer_id })
    if (typeof merchant_id === 'string') await recoverParty(tx, 'merchant', { tenant_id, id: merchant_id })
    await tx`${openingAccounts(tx, tx`select ${tenant_id}::uuid as tenant_id, ${currency}::text as currency`)}`
    await take()
  })
}
