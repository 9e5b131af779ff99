// Answers with payments: reads them in batches and opens their sealed client secrets.
import { SealError } from '#core/secrets.ts'
import { findPayments } from '#domain/payments/find.ts'
import type { Payment } from '#domain/payments/payment.ts'
import { clientSecretPlace } from '#domain/payments/sealed.ts'
import { finding, type Answers } from '../../accept.ts'
import type { ApiContext } from '../../context.ts'

export type PaymentAnswers = Answers<Payment> & {
  /** A payment as its owner sees it. */
  shown: (payment: Payment) => Payment
}

export function createPaymentAnswers({ sql, vault, log }: ApiContext): PaymentAnswers {
  const find = finding('find_payment', (asked) => findPayments(sql, asked), 'payment_not_found')
  const shown = (payment: Payment): Payment => ({ ...payment, client_secret: opened(payment) })

  // One secret that cannot be opened must not hide its payment, nor a whole list.
  function opened({ tenant_id, id, client_secret }: Payment): string | null {
    try {
      return client_secret === null ? null : vault.open(client_secret, clientSecretPlace(tenant_id, id))
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      log.error({ err: error, payment_id: id }, 'a client secret cannot be shown')
      return null
    }
  }

  return {
    shown,
    async find(asked) {
      const found = await find(asked)
      return { ...found, resource: shown(found.resource) }
    },
    pathOf: ({ id }) => `/v1/payments/${id}`,
    idsOf: ({ id }) => ({ payment_id: id }),
  }
}
