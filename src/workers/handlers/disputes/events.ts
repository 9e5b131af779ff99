// Applies notifications about a dispute: the processor's present state replaces the stored state.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { findDisputeByReference, type ExistingDispute } from '#domain/disputes/find.ts'
import { settleDispute } from '#domain/disputes/settle.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProcessorDispute } from '#providers/disputes.ts'
import type { ProviderEventTarget } from '#providers/events.ts'
import type { WorkerContext } from '../../context.ts'
import { retry, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { endApplied, isLookup } from '../notifications/apply.ts'
import { compare, toSide, type ComparedResource } from '../notifications/drifts.ts'
import { retryQuery, finish, parkFor, wasDrift, wasParkedFor } from '../notifications/parked.ts'
import { findParentRow, findParentPayment, parkUntilAmountFits } from '../notifications/parent-payment.ts'
import { withinMode } from '../notifications/rows.ts'
import { comparedPayment, paymentKey } from '../payments/effects.ts'

/**
 * The maximum number of tries: while the processor is queried, another notification of the dispute may change our row.
 */
const MAX_TRIES = 5

const comparedDispute: ComparedResource = {
  resource: 'dispute',
  query: async ({ processor }, reference) => toSide(await processor.findDispute(reference), sideOf),
}

export const disputeEvent = { apply: applyDispute, findRow: findParentRow }

/** The processor's dispute as one side of a comparison. */
function sideOf(dispute: ProcessorDispute): Side {
  const moved = (kind: ProcessorDispute['movements'][number]['kind']) =>
    dispute.movements.reduce((sum, each) => sum + (each.kind === kind ? each.amount_minor : 0), 0)
  return {
    status: dispute.status,
    amount_minor: dispute.amount_minor,
    currency: dispute.currency,
    processor_reference: dispute.reference,
    amount_withdrawn_minor: moved('dispute_withdrawn'),
    amount_reinstated_minor: moved('dispute_reinstated'),
  }
}

async function applyDispute(
  context: WorkerContext,
  notification: StoredNotification,
  { reference, parent_reference }: ProviderEventTarget,
): Promise<Decision> {
  const { sql, processor } = context
  const is_lookup = isLookup(notification)
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    // The row is read before the query, so that the processor's answer is newer than the row.
    const existing = await withinMode(context, await findDisputeByReference(sql, processor.name, reference))
    // A dispute carries no metadata. If its row does not exist yet, first check that the dispute belongs to one of our
    // payments.
    if (existing === undefined && !is_lookup) {
      const found = await findParentPayment(context, notification, parent_reference)
      if ('decision' in found) return found.decision
    }
    const lookup = await processor.findDispute(reference)
    if (lookup.kind !== 'done') return retryQuery(notification, lookup)
    const dispute = lookup.value
    if (dispute === null) return await disputeMissing(context, notification, existing)
    const found = await findParentPayment(context, notification, dispute.payment_reference)
    if ('decision' in found) return found.decision
    const { payment } = found
    if (payment.status !== 'captured' || payment.currency !== dispute.currency)
      return await parkUntilAmountFits(context, notification, payment, dispute.payment_reference)
    const ids = { tenant_id: payment.tenant_id, payment_id: payment.id }
    const { reference: processor_reference, payment_reference: _, ...update } = dispute
    const written = await settleDispute(sql, existing, {
      ...ids,
      processor: processor.name,
      processor_reference,
      ...update,
    })
    if (written === undefined) continue
    addLogFacts({ ...ids, dispute_id: written.id })
    const was_drift = wasDrift(notification)
    if (!is_lookup && !was_drift) return await endApplied(notification, paymentKey(ids), {})
    const compareAfter = async () => {
      const row = { tenant_id: ids.tenant_id, id: written.id }
      const compared = await compare(context, comparedDispute, row, sideOf(dispute))
      if (compared.kind !== 'done' || !was_drift) return compared
      return await compare(context, comparedPayment, payment, null, { except_id: notification.id })
    }
    return await endApplied(notification, paymentKey(ids), { compareAfter })
  }
  return retry('the dispute changed during each query of the processor', {})
}

/** The decision about an event of a dispute that does not exist at the processor. */
async function disputeMissing(
  context: WorkerContext,
  notification: StoredNotification,
  existing: ExistingDispute | undefined,
): Promise<Decision> {
  const is_lookup = isLookup(notification)
  if (existing !== undefined && (is_lookup || wasParkedFor(notification, 'not_at_processor'))) {
    const compared = await compare(context, comparedDispute, existing, null)
    if (compared.kind !== 'done') return retryQuery(notification, compared)
  }
  return is_lookup ? finish(notification, 'ignored') : parkFor(context, notification, 'not_at_processor')
}
