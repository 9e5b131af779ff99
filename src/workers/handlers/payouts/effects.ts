// Translates a provider's report of a payout or transfer, and settles it.
import { settlePayouts, type PayoutSettlement, type PayoutUpdate } from '#domain/payouts/settle.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProcessorPayout } from '#providers/payouts.ts'
import { createSettlingStep, type SettlementDetails } from '../../settle.ts'
import { toSide, type ComparedResource } from '../notifications/drifts.ts'

export const comparedPayout: ComparedResource = {
  resource: 'payout',
  query: async ({ payouts }, reference) => toSide(await payouts.findPayout(reference), sideOfPayout),
}

export const settlingPayout = createSettlingStep<SettlementDetails<PayoutSettlement>>(
  'settle_payout',
  settlePayouts,
  ({ update }) => update.payout_id,
)

/** The processor's payout as an update. */
export function payoutUpdate(
  ids: { tenant_id: string; payout_id: string },
  { status, reference, arrival_date, returned_minor, failure }: ProcessorPayout,
): PayoutUpdate {
  return { ...ids, reported: status, processor_reference: reference, arrival_date, returned_minor, failure }
}

/** The processor's payout as one side of a comparison. */
export function sideOfPayout(payout: ProcessorPayout): Side {
  return {
    status: payout.status,
    amount_minor: payout.amount_minor,
    currency: payout.currency,
    processor_reference: payout.reference,
    out_minor: payout.status === 'paid' ? payout.amount_minor - payout.returned_minor : 0,
  }
}
