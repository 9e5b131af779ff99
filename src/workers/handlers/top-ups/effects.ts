// Translates a provider's report of a top-up, and settles it.
import type { Side } from '#domain/reconciliation/side.ts'
import { settleTopUps, type TopUpSettlement, type TopUpUpdate } from '#domain/top-ups/settle.ts'
import type { ProcessorTopUp } from '#providers/top-ups.ts'
import { createSettlingStep, type SettlementDetails } from '../../settle.ts'
import { toSide, type ComparedResource } from '../notifications/drifts.ts'

export const comparedTopUp: ComparedResource = {
  resource: 'top_up',
  query: async ({ top_ups }, reference) => toSide(await top_ups.findTopUp(reference), sideOfTopUp),
}

export const settlingTopUp = createSettlingStep<SettlementDetails<TopUpSettlement>>(
  'settle_top_up',
  settleTopUps,
  ({ update }) => update.top_up_id,
)

/** The processor's top-up as an update. */
export function topUpUpdate(
  ids: { tenant_id: string; top_up_id: string },
  top_up: ProcessorTopUp,
): TopUpUpdate {
  const { status, reference, failure } = top_up
  return {
    ...ids,
    reported: status,
    processor_reference: reference,
    failure: status === 'reversed' ? REVERSED : failure,
  }
}

const REVERSED = { code: 'reversed', message: 'The processor reversed the top-up.' }

/** The processor's top-up as one side of a comparison. */
export function sideOfTopUp({ status, amount_minor, currency, reference }: ProcessorTopUp): Side {
  return { status, amount_minor, currency, processor_reference: reference }
}
