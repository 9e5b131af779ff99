// Translates a provider's report of a payment, and settles it.
import { clientSecretContext } from '#domain/payments/sealed.ts'
import { settlePayments, type PaymentSettlement, type PaymentUpdate } from '#domain/payments/settle.ts'
import type { PaymentSide } from '#domain/payments/resource.ts'
import type { ResourceKey } from '#domain/resources.ts'
import type { ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import { createSettlingStep, type SettlementDetails } from '../../settle.ts'
import { toSide, type ComparedResource } from '../notifications/drifts.ts'

export const comparedPayment: ComparedResource = {
  resource: 'payment',
  query: async ({ processor }, reference) => toSide(await processor.findPayment(reference), sideOfPayment),
}

/** Two settlements of one payment never share a statement. */
export const settlingPayment = createSettlingStep<SettlementDetails<PaymentSettlement>>(
  'settle_payment',
  settlePayments,
  ({ update }) => update.payment_id,
)

/**
 * The update of a payment by the processor's record. Undefined while the processor is still processing: a notification
 * will follow.
 */
export function paymentUpdate(
  { vault }: WorkerContext,
  { tenant_id, payment_id }: { tenant_id: string; payment_id: string },
  payment: ProcessorPayment,
): PaymentUpdate | undefined {
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
        : vault.seal(payment.client_secret, clientSecretContext(tenant_id, payment_id)),
    capture_before: payment.capture_before,
    authorized_at: payment.status === 'canceled' ? payment.authorized_at : null,
    cancellation_reason: payment.cancellation_reason,
    // A succeeded or canceled payment has no failure, even if earlier tries of the buyer failed.
    failure: waits || payment.status === 'failed' ? declineOf(payment) : null,
  }
}

/** The decline of the last authorization; null if it did not fail. */
export function declineOf({ failure }: ProcessorPayment): NonNullable<PaymentUpdate['failure']> | null {
  if (failure === null) return null
  const { code, message, decline_code } = failure
  return { code: 'payment_declined', message, decline_code: decline_code ?? code }
}

/** The key of a payment's row, to which notifications of the payment and its refunds are assigned. */
export function paymentKey({
  tenant_id,
  payment_id,
}: {
  tenant_id: string
  payment_id: string
}): ResourceKey {
  return { tenant_id, resource: 'payment', resource_id: payment_id }
}

/** The processor's payment as one side of a comparison. */
export function sideOfPayment(payment: ProcessorPayment): PaymentSide {
  return {
    status: payment.status,
    amount_minor: payment.amount_minor,
    amount_capturable_minor: payment.amount_capturable_minor,
    amount_captured_minor: payment.amount_captured_minor,
    amount_refunded_minor: payment.amount_refunded_minor,
    currency: payment.currency,
    processor_reference: payment.reference,
  }
}
