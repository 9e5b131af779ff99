// Applies notifications about a dispute: what the processor says of it now is written over what it said before.
import type { StoredNotification } from '#domain/notifications/notification.ts'
import { findDisputeByReference, type KnownDispute } from '#domain/disputes/find.ts'
import { settleDispute } from '#domain/disputes/settle.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProcessorDispute } from '#providers/disputes.ts'
import type { News } from '#providers/news.ts'
import type { WorkerContext } from '../../context.ts'
import { retry, type Decision } from '../../decision.ts'
import { addLogFacts } from '../../job-log.ts'
import { applied, isLook } from '../notifications/apply.ts'
import { compare, sided, type ComparedNoun } from '../notifications/drifts.ts'
import { askAgain, over, parkFor, wasDrift, wasParkedFor } from '../notifications/parked.ts'
import { findRowBehind, paymentBehind, waitForRoom } from '../notifications/parts.ts'
import { comparedPayment, filedUnder } from '../payments/effects.ts'

/** Another notification of the dispute may be written while the processor is asked; then it is asked again, so often at most. */
const TRIES = 5

const comparedDispute: ComparedNoun = {
  noun: 'dispute',
  ask: async ({ processor }, reference) => sided(await processor.findDispute(reference), sideOf),
}

export const disputeNews = { apply: applyDispute, findRow: findRowBehind }

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
  { reference, part_of }: News,
): Promise<Decision> {
  const { sql, processor } = context
  const is_look = isLook(notification)
  for (let tries = 0; tries < TRIES; tries++) {
    // Read before the processor is asked: its answer is then newer than what is written here.
    const known = await findDisputeByReference(sql, processor.name, reference)
    // Unknown here: first find out whether it belongs to a payment of ours. A dispute carries no mark.
    if (known === undefined && !is_look) {
      const found = await paymentBehind(context, notification, part_of)
      if ('decision' in found) return found.decision
    }
    const looked = await processor.findDispute(reference)
    if (looked.kind !== 'done') return askAgain(notification, looked)
    const dispute = looked.value
    if (dispute === null) return await notThere(context, notification, known)
    const found = await paymentBehind(context, notification, dispute.payment_reference)
    if ('decision' in found) return found.decision
    const { payment } = found
    if (payment.status !== 'captured' || payment.currency !== dispute.currency)
      return await waitForRoom(context, notification, payment, dispute.payment_reference)
    const of = { tenant_id: payment.tenant_id, payment_id: payment.id }
    const { reference: processor_reference, payment_reference: _, ...told } = dispute
    const written = await settleDispute(sql, known, {
      ...of,
      processor: processor.name,
      processor_reference,
      ...told,
    })
    if (written === undefined) continue
    addLogFacts({ ...of, dispute_id: written.id })
    const was_drift = wasDrift(notification)
    if (!is_look && !was_drift) return await applied(notification, filedUnder(of), {})
    const compareAfter = async () => {
      const row = { tenant_id: of.tenant_id, id: written.id }
      const compared = await compare(context, comparedDispute, row, sideOf(dispute))
      if (compared.kind !== 'done' || !was_drift) return compared
      return await compare(context, comparedPayment, payment, null, { news: notification.id })
    }
    return await applied(notification, filedUnder(of), { compareAfter })
  }
  return retry('the dispute changed each time while the processor was asked', {})
}

/** The processor knows no such dispute. */
async function notThere(
  context: WorkerContext,
  notification: StoredNotification,
  known: KnownDispute | undefined,
): Promise<Decision> {
  const is_look = isLook(notification)
  if (known !== undefined && (is_look || wasParkedFor(notification, 'not_at_processor'))) {
    const compared = await compare(context, comparedDispute, known, null)
    if (compared.kind !== 'done') return askAgain(notification, compared)
  }
  return is_look ? over(notification, 'ignored') : parkFor(context, notification, 'not_at_processor')
}
