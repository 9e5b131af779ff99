// Payments as they are answered: read together, with what is kept encrypted, and waited for.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { batcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import { SealError } from '#core/secrets.ts'
import type { AskedFor, Found } from '#domain/jobs/found.ts'
import { findPayments } from '#domain/payments/find.ts'
import type { Payment } from '#domain/payments/payment.ts'
import { clientSecretPlace } from '#domain/payments/sealed.ts'
import type { ApiContext } from '../../context.ts'
import { answerOutcome } from '../../outcome.ts'

export type PaymentAnswers = {
  /** A payment as its owner sees it. */
  shown: (payment: Payment) => Payment
  /** One payment, shown. Throws `payment_not_found`. */
  find: (tenant_id: string, id: string) => Promise<Payment>
  /**
   * The payment after its job, as `answerOutcome` says. `reached`: whether it is what was asked for. The wait has begun when
   * this returns its promise.
   */
  waited(
    request: FastifyRequest,
    reply: FastifyReply,
    done: {
      job_id: string | null
      fresh: boolean
      payment_id: string
      status: 200 | 201
      replayed: boolean
      reached: (payment: Payment) => boolean
    },
  ): Promise<Payment>
}

export function createPaymentAnswers(context: ApiContext): PaymentAnswers {
  const { sql, vault } = context
  const read = batcher<AskedFor, Found<Payment> | undefined>('find_payment', (asked) =>
    findPayments(sql, asked),
  )
  const shown = (payment: Payment): Payment => ({ ...payment, client_secret: opened(payment) })

  // One secret that cannot be opened must not hide its payment, nor a whole list.
  function opened({ tenant_id, id, client_secret }: Payment): string | null {
    try {
      return client_secret === null ? null : vault.open(client_secret, clientSecretPlace(tenant_id, id))
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      context.log.error({ err: error, payment_id: id }, 'a client secret cannot be shown')
      return null
    }
  }

  async function find(tenant_id: string, id: string, job_id: string | null): Promise<Found<Payment>> {
    const found = await read({ tenant_id, id, job_id })
    if (found === undefined) throw new AppError('payment_not_found')
    return { ...found, resource: shown(found.resource) }
  }

  return {
    shown,
    find: async (tenant_id, id) => (await find(tenant_id, id, null)).resource,
    async waited(request, reply, { payment_id, ...done }) {
      const { tenant_id } = request.credentials
      request.subject_id = payment_id
      return await answerOutcome(context, request, reply, {
        ...done,
        location: `/v1/payments/${payment_id}`,
        error_context: { payment_id },
        find: () => find(tenant_id, payment_id, done.job_id),
      })
    },
  }
}
