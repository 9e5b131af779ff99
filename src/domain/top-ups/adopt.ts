// Adopts the processor's top-up of a lost request.
import type { Sql } from '#core/db.ts'
import { openingAccounts } from '../ledger.ts'
import { settleAdoptions, type AdoptionSettlement } from '../recovered/adopt.ts'
import { settleTopUps, type TopUpSettlement } from './settle.ts'

export type TopUpAdoption = TopUpSettlement & AdoptionSettlement

/** Settles top-ups that take the content of the processor's top-up. */
export async function adoptTopUps(sql: Sql, settlements: TopUpAdoption[]): Promise<Set<string>> {
  return await settleAdoptions(sql, 'top_up', settlements, settleTopUps, async (tx, { adopted }, take) => {
    const { tenant_id, currency } = adopted
    const account = tx`select ${tenant_id}::uuid as tenant_id, upper(${currency}::text) as currency`
    await tx`${openingAccounts(tx, account)}`
    await take()
  })
}
