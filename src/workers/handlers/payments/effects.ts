// Translates a provider's report of a payment, and settles it.
import { adoptPayments, type PaymentAdoption } from '#domain/payments/adopt.ts'
import { findPaymentByIds } from '#domain/payments/find.ts'
import { clientSecretContext } from '#domain/payments/sealed.ts'
import { settlePayments, type PaymentSettlement, type PaymentUpdate } from '#domain/payments/settle.ts'
import { idIn, type Metadata } from '#domain/provider-metadata.ts'
import type { PaymentSide } from '#domain/payments/resource.ts'
import type { ResourceKey } from '#domain/resources.ts'
import type { ProcessorPayment } from '#providers/payments.ts'
import type { WorkerContext } from '../../context.ts'
import type { Decision } from '../../decision.ts'
import { createSettlingStep, ONE_BY_ONE, type SettlementDetails } from '../../settle.ts'
import { adopt, findAdopted } from '../adopt.ts'
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

const adopting = createSettlingStep<SettlementDetails<PaymentAdoption>>(
  'adopt_payment',
  adoptPayments,
  ({ update }) => update.payment_id,
  ONE_BY_ONE,
)

/** Takes the content of the processor's payment of a lost request. */
export async function adoptPayment(
  context: WorkerContext,
  ids: { tenant_id: string; payment_id: string; requested: Metadata },
  found: ProcessorPayment,
): Promise<Decision | undefined> {
  const { tenant_id, payment_id, requested } = ids
  const row_ids = { tenant_id, id: payment_id }
  const row = await findPaymentByIds(context.sql, row_ids, null)
  const adopted = await findAdopted(
    context,
    'payment',
    row_ids,
    { row, found, requested },
    {
      customer_id: idIn(found.metadata, 'customer_id'),
      merchant_id: idIn(found.metadata, 'merchant_id'),
      description: found.description,
      return_url: null,
    },
  )
  const update = paymentUpdate(context, { tenant_id, payment_id }, found)
  if (adopted === undefined || update === undefined) return undefined
  return adopt(context, 'payment', adopted, adopting({ update, notification_id: null, adopted }))
}

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
