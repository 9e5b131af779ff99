// Translates a provider's report of a payout or transfer, and settles it.
import { adoptPayouts, type PayoutAdoption } from '#domain/payouts/adopt.ts'
import { findPayoutByIds } from '#domain/payouts/find.ts'
import { settlePayouts, type PayoutSettlement, type PayoutUpdate } from '#domain/payouts/settle.ts'
import { idIn, type Metadata } from '#domain/provider-metadata.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProcessorPayout } from '#providers/payouts.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { createSettlingStep, ONE_BY_ONE, type SettlementDetails } from '../../settle.ts'
import { adopt, findAdopted } from '../adopt.ts'
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

const adopting = createSettlingStep<SettlementDetails<PayoutAdoption>>(
  'adopt_payout',
  adoptPayouts,
  ({ update }) => update.payout_id,
  ONE_BY_ONE,
)

/** Takes the content of the processor's payout of a lost request. */
export async function adoptPayout(
  context: WorkerContext,
  ids: { tenant_id: string; payout_id: string; requested: Metadata },
  found: ProcessorPayout,
): Promise<Decision | undefined> {
  const { tenant_id, payout_id, requested } = ids
  const row_ids = { tenant_id, id: payout_id }
  const { destination, description, metadata } = found
  const recipient_id = idIn(metadata, 'recipient_id')
  if (recipient_id === null) return undefined
  const row = await findPayoutByIds(context.sql, row_ids)
  const columns = { recipient_id, description }
  const adopted = await findAdopted(context, 'payout', row_ids, { row, found, requested }, columns)
  if (adopted === undefined) return undefined
  const update = payoutUpdate({ tenant_id, payout_id }, found)
  const details = { update, notification_id: null, adopted, recipient_id, destination }
  return adopt(context, 'payout', adopted, adopting(details))
}

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
