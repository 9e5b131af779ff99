// The sealing contexts of a payment's secrets. Sealing and opening need the same context.
import type { SealingContext } from '#core/secrets.ts'

/** The context of `payments.client_secret`. */
export function clientSecretContext(tenant_id: string, payment_id: string): SealingContext {
  return { tenant_id, table: 'payments', row: payment_id, column: 'client_secret' }
}

/** The context of the payment method token in an authorization's request. */
export function paymentMethodContext(tenant_id: string, job_id: string): SealingContext {
  return { tenant_id, table: 'jobs', row: job_id, column: 'request.sealed.payment_method' }
}
