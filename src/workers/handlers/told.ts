// Translates what a provider says of a payment, refund, payout, top-up or verification into what the settling steps write, for jobs and for
// notifications, and declares those steps.
import { clientSecretPlace } from '#domain/payments/sealed.ts'
import { settlePayments, type PaymentSettlement, type PaymentTold } from '#domain/payments/settle.ts'
import { settlePayouts, type PayoutSettlement, type PayoutTold } from '#domain/payouts/settle.ts'
import { settleRefunds, type RefundSettlement, type RefundTold } from '#domain/refunds/settle.ts'
import { settleTopUps, type TopUpSettlement, type TopUpTold } from '#domain/top-ups/settle.ts'
import { settleKycs, type KycSettlement, type KycTold } from '#domain/verifications/settle.ts'
import type { IdentitySession } from '#providers/identity.ts'
import type { ProcessorPayment, ProcessorRefund } from '#providers/payments.ts'
import type { ProcessorPayout } from '#providers/payouts.ts'
import type { ProcessorTopUp } from '#providers/top-ups.ts'
import type { WorkerContext } from '../context.ts'
import { settling, type Told } from '../settle.ts'

/** No two of one payment in one statement. */
export const settlingPayment = settling<Told<PaymentSettlement>>(
  'settle_payment',
  settlePayments,
  ({ told }) => told.payment_id,
)
export const settlingRefund = settling<Told<RefundSettlement>>(
  'settle_refund',
  settleRefunds,
  ({ told }) => told.payment_id,
)

export const settlingPayout = settling<Told<PayoutSettlement>>(
  'settle_payout',
  settlePayouts,
  ({ told }) => told.payout_id,
)
export const settlingTopUp = settling<Told<TopUpSettlement>>(
  'settle_top_up',
  settleTopUps,
  ({ told }) => told.top_up_id,
)

export const settlingKyc = settling<Told<KycSettlement>>('settle_kyc', settleKycs, ({ told }) => told.kyc_id)

/** Undefined while the processor is still working on the payment; a notification will follow. */
export function paymentTold(
  { vault }: WorkerContext,
  { tenant_id, payment_id }: { tenant_id: string; payment_id: string },
  payment: ProcessorPayment,
): PaymentTold | undefined {
  if (payment.status === 'processing') return undefined
  const waits = payment.status === 'requires_action'
  return {
    tenant_id,
    payment_id,
    status: payment.status,
    failed_operation: null,
    processor_reference: payment.reference,
    amount_capturable_minor: payment.amount_capturable_minor,
    amount_captured_minor: payment.amount_captured_minor,
    client_secret:
      payment.client_secret === null || !waits
        ? null
        : vault.seal(payment.client_secret, clientSecretPlace(tenant_id, payment_id)),
    capture_before: payment.capture_before,
    cancellation_reason: payment.cancellation_reason,
    // A payment that succeeded or was canceled has no failure, whatever was tried before.
    failure: waits || payment.status === 'failed' ? declineOf(payment) : null,
  }
}

/** Why the last try to authorize a payment failed; null unless one did. */
export function declineOf({ failure }: ProcessorPayment): NonNullable<PaymentTold['failure']> | null {
  if (failure === null) return null
  const { code, message, decline_code } = failure
  return { code: 'payment_declined', message, decline_code: decline_code ?? code }
}

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

export function payoutTold(
  ids: { tenant_id: string; payout_id: string },
  { status, reference, arrival_date, returned_minor, failure }: ProcessorPayout,
): PayoutTold {
  return { ...ids, said: status, processor_reference: reference, arrival_date, returned_minor, failure }
}

export function topUpTold(ids: { tenant_id: string; top_up_id: string }, top_up: ProcessorTopUp): TopUpTold {
  const { status, reference, failure } = top_up
  return {
    ...ids,
    said: status,
    processor_reference: reference,
    failure: status === 'reversed' ? REVERSED : failure,
  }
}

const REVERSED = { code: 'reversed', message: 'The processor took the money back.' }

/** `as_of`: the database's time before the provider was asked. */
export function kycTold(
  ids: { tenant_id: string; kyc_id: string },
  { status, reference, failure }: IdentitySession,
  as_of: string | null,
): KycTold {
  return { ...ids, said: status, as_of, provider_reference: reference, failure, link: null }
}
