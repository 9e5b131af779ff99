// The places to which the secrets of a payment are sealed: sealing and opening must name the same place.
import type { SealingContext } from '#core/secrets.ts'

/** The place of `payments.client_secret`. */
export function clientSecretContext(tenant_id: string, payment_id: string): SealingContext {
  return { tenant_id, table: 'payments', row: payment_id, column: 'client_secret' }
}

/** The place of the token in an authorization's request. */
export function paymentMethodContext(tenant_id: string, job_id: string): SealingContext {
  return { tenant_id, table: 'jobs', row: job_id, column: 'request.sealed.payment_method' }
}
