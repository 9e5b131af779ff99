// Translates a provider's report of a top-up, and settles it.
import type { Metadata } from '#domain/provider-metadata.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import { adoptTopUps, type TopUpAdoption } from '#domain/top-ups/adopt.ts'
import { findTopUpByIds } from '#domain/top-ups/find.ts'
import { settleTopUps, type TopUpSettlement, type TopUpUpdate } from '#domain/top-ups/settle.ts'
import type { ProcessorTopUp } from '#providers/top-ups.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { createSettlingStep, ONE_BY_ONE, type SettlementDetails } from '../../settle.ts'
import { adopt, findAdopted } from '../adopt.ts'
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

const adopting = createSettlingStep<SettlementDetails<TopUpAdoption>>(
  'adopt_top_up',
  adoptTopUps,
  ({ update }) => update.top_up_id,
  ONE_BY_ONE,
)

/** Takes the content of the processor's top-up of a lost request. */
export async function adoptTopUp(
  context: WorkerContext,
  ids: { tenant_id: string; top_up_id: string; requested: Metadata },
  found: ProcessorTopUp,
): Promise<Decision | undefined> {
  const { tenant_id, top_up_id, requested } = ids
  const row_ids = { tenant_id, id: top_up_id }
  const row = await findTopUpByIds(context.sql, row_ids, null)
  const columns = { description: found.description }
  const adopted = await findAdopted(context, 'top_up', row_ids, { row, found, requested }, columns)
  if (adopted === undefined) return undefined
  const update = topUpUpdate({ tenant_id, top_up_id }, found)
  return adopt(context, 'top_up', adopted, adopting({ update, notification_id: null, adopted }))
}

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
