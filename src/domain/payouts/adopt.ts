// Adopts the processor's payout of a lost request.
import type { Sql } from '#core/db.ts'
import { noTransfers, openingAccounts, postings } from '../ledger.ts'
import { settleAdoptions, type AdoptionSettlement } from '../recovered/adopt.ts'
import { recoverParty } from '../recovered/parties.ts'
import { settlePayouts, type PayoutSettlement } from './settle.ts'

export type PayoutAdoption = PayoutSettlement &
  AdoptionSettlement & { recipient_id: string; destination: string | null }

/**
 * Settles payouts that take the content of the processor's payout. Its amount is reserved in place of the former one,
 * even if the available balance becomes negative.
 */
export async function adoptPayouts(sql: Sql, settlements: PayoutAdoption[]): Promise<Set<string>> {
  return await settleAdoptions(sql, 'payout', settlements, settlePayouts, async (tx, settlement, take) => {
    const { recipient_id, destination, adopted } = settlement
    const { tenant_id, currency } = adopted
    await recoverParty(tx, 'recipient', { tenant_id, id: recipient_id }, { destination, currency })
    const account = tx`select ${tenant_id}::uuid as tenant_id, upper(${currency}::text) as currency`
    await tx`${openingAccounts(tx, account)}`
    const { before, after } = await take()
    const moved = tx`
      select ${tenant_id}::uuid as tenant_id, upper(currency) as currency, 'available' as account,
        amount_minor as reserved_delta
      from (values (${before.currency}::text, -${before.amount_minor}::bigint),
        (${after.currency}, ${after.amount_minor})) as moved(currency, amount_minor)`
    await tx`with ${postings(tx, noTransfers(tx), moved)} select`
  })
}
