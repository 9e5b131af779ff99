// Translates a provider's report of a refund, and settles it.
import type { Side } from '#domain/reconciliation/side.ts'
import { settleRefunds, type RefundSettlement, type RefundUpdate } from '#domain/refunds/settle.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import { createSettlingStep, type SettlementDetails } from '../../settle.ts'
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
