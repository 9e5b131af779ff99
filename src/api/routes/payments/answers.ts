// Reads payments in batches and decrypts their client secrets.
import { SealError } from '#core/secrets.ts'
import { findPayments } from '#domain/payments/find.ts'
import type { Payment } from '#domain/payments/payment.ts'
import { clientSecretContext } from '#domain/payments/sealed.ts'
import { batchedFind, type ResourceReader } from '../../accept.ts'
import type { ApiContext } from '../../context.ts'

export type PaymentReader = ResourceReader<Payment> & {
  /** A payment with its decrypted client secret. */
  viewOf: (payment: Payment) => Payment
}

export function createPaymentReader({ sql, vault, log }: ApiContext): PaymentReader {
  const find = batchedFind('find_payment', (requested) => findPayments(sql, requested), 'payment_not_found')
  const viewOf = (payment: Payment): Payment => ({ ...payment, client_secret: openSecret(payment) })

  // A secret that cannot be decrypted must not fail the answer with its payment, or a list.
  function openSecret({ tenant_id, id, client_secret }: Payment): string | null {
    try {
      return client_secret === null ? null : vault.open(client_secret, clientSecretContext(tenant_id, id))
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      log.error(
        { err: error, payment_id: id },
        'the client secret of a payment cannot be decrypted: null is returned. Check ENCRYPTION_KEY',
      )
      return null
    }
  }

  return {
    viewOf,
    async find(requested) {
      const found = await find(requested)
      return { ...found, resource: viewOf(found.resource) }
    },
    pathOf: ({ id }) => `/v1/payments/${id}`,
    idsOf: ({ id }) => ({ payment_id: id }),
  }
}
