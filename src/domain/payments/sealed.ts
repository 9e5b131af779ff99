// What of a payment is kept sealed, and where: who seals and who opens name the place alike.
import type { SealedPlace } from '#core/secrets.ts'

/** Of `payments.client_secret`. */
export function clientSecretPlace(tenant_id: string, payment_id: string): SealedPlace {
  return { tenant_id, table: 'payments', row: payment_id, column: 'client_secret' }
}

/** Of the token in the request of an authorization. What was sealed when requests had a table of their own opens here only. */
export function paymentMethodPlace(tenant_id: string, job_id: string): SealedPlace {
  return { tenant_id, table: 'provider_calls', row: job_id, column: 'request.sealed.payment_method' }
}
