// Translates a provider's report of a refund, and settles it.
import { findPaymentByIds } from '#domain/payments/find.ts'
import type { Metadata } from '#domain/provider-metadata.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import { adoptRefunds, type RefundAdoption } from '#domain/refunds/adopt.ts'
import { findRefundByIds } from '#domain/refunds/find.ts'
import { settleRefunds, type RefundSettlement, type RefundUpdate } from '#domain/refunds/settle.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { createSettlingStep, ONE_BY_ONE, type SettlementDetails } from '../../settle.ts'
import { adopt, findAdopted } from '../adopt.ts'
import { toSide, type ComparedResource } from '../notifications/drifts.ts'

export const comparedRefund: ComparedResource = {
  resource: 'refund',
  query: async ({ processor }, reference) => toSide(await processor.findRefund(reference), sideOfRefund),
}

/** Two settlements of one payment never share a statement. */
export const settlingRefund = createSettlingStep<SettlementDetails<RefundSettlement>>(
  'settle_refund',
  settleRefunds,
  ({ update }) => update.payment_id,
)

const adopting = createSettlingStep<SettlementDetails<RefundAdoption>>(
  'adopt_refund',
  adoptRefunds,
  ({ update }) => update.payment_id,
  ONE_BY_ONE,
)

/** Takes the content of the processor's refund of a lost request, if the payment has the amount left. */
export async function adoptRefund(
  context: WorkerContext,
  ids: { tenant_id: string; payment_id: string; refund_id: string; requested: Metadata },
  found: ProcessorRefund,
): Promise<Decision | undefined> {
  const { tenant_id, payment_id, refund_id: id, requested } = ids
  const [row, payment] = await Promise.all([
    findRefundByIds(context.sql, { tenant_id, payment_id, id }, null),
    findPaymentByIds(context.sql, { tenant_id, id: payment_id }, null),
  ])
  if (row === undefined || payment === undefined) return undefined
  const reserved_minor = payment.amount_refund_reserved_minor - row.amount_minor + found.amount_minor
  const is_of_payment = found.payment_reference === payment.processor_reference
  if (!is_of_payment || reserved_minor > payment.amount_captured_minor) return undefined
  const columns = { reason: found.reason }
  const adopted = await findAdopted(context, 'refund', { tenant_id, id }, { row, found, requested }, columns)
  if (adopted === undefined) return undefined
  const update = refundUpdate({ tenant_id, payment_id, refund_id: id }, found)
  return adopt(context, 'refund', adopted, adopting({ update, notification_id: null, adopted }))
}

/** The processor's refund as an update. */
export function refundUpdate(
  ids: { tenant_id: string; payment_id: string; refund_id: string },
  refund: ProcessorRefund,
): RefundUpdate {
  return {
    ...ids,
    status: refund.status,
    processor_reference: refund.reference,
    failure: refundFailure(refund),
  }
}

/** The failure of a refund at the processor; null if it did not fail. */
export function refundFailure(refund: ProcessorRefund): RefundUpdate['failure'] {
  if (refund.status !== 'failed') return null
  return { code: 'processor_error', message: refund.failure_reason ?? 'the refund failed at the processor' }
}

/** The processor's refund as one side of a comparison. */
export function sideOfRefund(refund: ProcessorRefund): Side {
  return {
    status: refund.status,
    amount_minor: refund.amount_minor,
    currency: refund.currency,
    processor_reference: refund.reference,
  }
}
