// What a provider's report of a refund means here, and the steps that settle it.
import type { Side } from '#domain/reconciliation/side.ts'
import { settleRefunds, type RefundSettlement, type RefundTold } from '#domain/refunds/settle.ts'
import type { ProcessorRefund } from '#providers/payments.ts'
import { settling, type Told } from '../../settle.ts'
import { sided, type ComparedNoun } from '../notifications/drifts.ts'

export const comparedRefund: ComparedNoun = {
  noun: 'refund',
  ask: async ({ processor }, reference) => sided(await processor.findRefund(reference), sideOfRefund),
}

/** No two of one payment in one statement. */
export const settlingRefund = settling<Told<RefundSettlement>>(
  'settle_refund',
  settleRefunds,
  ({ told }) => told.payment_id,
)

/** What the processor says of a refund, in our words. */
export function refundTold(
  ids: { tenant_id: string; payment_id: string; refund_id: string },
  refund: ProcessorRefund,
): RefundTold {
  return {
    ...ids,
    status: refund.status,
    processor_reference: refund.reference,
    failure: refundFailure(refund),
  }
}

/** Why a refund failed at the processor; null unless it did. */
export function refundFailure(refund: ProcessorRefund): RefundTold['failure'] {
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
