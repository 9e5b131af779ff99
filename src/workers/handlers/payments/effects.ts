// What a provider's report of a payment means here, and the steps that settle it.
import { findPaymentByIds, findPaymentByReference, type KnownPayment } from '#domain/payments/find.ts'
import { clientSecretPlace } from '#domain/payments/sealed.ts'
import { settlePayments, type PaymentSettlement, type PaymentTold } from '#domain/payments/settle.ts'
import type { PaymentSide } from '#domain/payments/subject.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import type { ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import { settling, type Told } from '../../settle.ts'
import type { RowsOf } from '../notifications/apply.ts'
import { sided, type ComparedNoun } from '../notifications/drifts.ts'

export const paymentRows: RowsOf<KnownPayment> = {
  noun: 'payment',
  byReference: ({ sql, processor }, reference) => findPaymentByReference(sql, processor.name, reference),
  byIds: ({ sql }, ids, reference) => findPaymentByIds(sql, ids, reference),
}

export const comparedPayment: ComparedNoun = {
  noun: 'payment',
  ask: async ({ processor }, reference) => sided(await processor.findPayment(reference), sideOfPayment),
}

/** No two of one payment in one statement. */
export const settlingPayment = settling<Told<PaymentSettlement>>(
  'settle_payment',
  settlePayments,
  ({ told }) => told.payment_id,
)

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

/** The payment that the processor knows by `reference`, to be compared. */
export async function findRow({ sql, processor }: WorkerContext, reference: string) {
  const payment = await findPaymentByReference(sql, processor.name, reference)
  return payment && { ...payment, compared: comparedPayment }
}

/** The row under which notifications of a payment and of its refunds are filed: the payment. */
export function filedUnder({ tenant_id, payment_id }: { tenant_id: string; payment_id: string }): SubjectKey {
  return { tenant_id, subject: 'payment', subject_id: payment_id }
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
