// Adopts the processor's refund of a lost request.
import type { Sql } from '#core/db.ts'
import { settleAdoptions, type AdoptionSettlement } from '../recovered/adopt.ts'
import { settleRefunds, type RefundSettlement } from './settle.ts'

export type RefundAdoption = RefundSettlement & AdoptionSettlement

/** Settles refunds that take the content of the processor's refund. The payment must have the amount left. */
export async function adoptRefunds(sql: Sql, settlements: RefundAdoption[]): Promise<Set<string>> {
  return await settleAdoptions(sql, 'refund', settlements, settleRefunds, async (tx, { adopted }, take) => {
    const money = await take()
    const delta = money.after.amount_minor - money.before.amount_minor
    await tx`
      update payments p set amount_refund_reserved_minor = p.amount_refund_reserved_minor + ${delta},
        updated_at = clock_timestamp()
      from refunds r
      where r.tenant_id = ${adopted.tenant_id} and r.id = ${adopted.id} and p.tenant_id = r.tenant_id
        and p.id = r.payment_id`
  })
}
