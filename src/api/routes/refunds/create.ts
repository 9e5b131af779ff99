// The route that creates a refund.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { amountMinor, moneyText, settlesExactly } from '#core/money.ts'
import { findPayment } from '#domain/payments/find.ts'
import { refundSchema, type Refund } from '#domain/refunds/refund.ts'
import { requestRefunds, type RefundRequest } from '#domain/refunds/request.ts'
import { createRefund } from '#jobs/refunds.ts'
import { accept, type ResourceReader } from '../../accept.ts'
import { idempotencyKey, metadata, settlementStepError } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { refusalUnlessHeld } from '../../lost-commits.ts'
import { idParams, route } from '../../route.ts'
import { REFUND_REQUESTS } from './examples.ts'

const createBody = z
  .strictObject({
    amount_minor: amountMinor.nullish().meta({
      description: 'The amount to refund. Defaults to the captured amount minus all other refunds.',
      example: 300,
    }),
    reason: z.enum(['duplicate', 'fraudulent', 'requested_by_customer']).nullish().meta({
      description: 'The reason. It is also sent to the processor.',
      example: 'requested_by_customer',
    }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'order-17-refund-1' }).optional(),
  })
  .meta({ id: 'CreateRefund', description: 'The amount and reason of the refund.' })

export function createRefundRoute(
  app: RouteApp,
  context: RouteContext,
  reader: ResourceReader<Refund>,
): void {
  const { sql } = context
  const request_refund = createBatcher<RefundRequest, 'accepted' | 'key_used' | undefined>(
    'request_refund',
    async (requests) => {
      const results = await requestRefunds(sql, requests)
      return requests.map(({ refund_id }) => results.get(refund_id))
    },
    {
      key: ({ tenant_id, payment_id, idempotency_key }) => [
        `${tenant_id} ${payment_id}`,
        `${tenant_id} ${idempotency_key}`,
      ],
    },
  )

  app.post(
    '/v1/payments/:id/refunds',
    route({
      area: 'payments',
      scope: 'payments:write',
      tag: 'refunds',
      operation_id: 'createRefund',
      summary: 'Refund a payment',
      description:
        'Refunds all or a part of the captured amount. Refunds can never exceed the captured amount together, even if they are requested at the same time. A refund that succeeded may still fail up to 30 days later; then the amount is returned to your balance.',
      params: idParams,
      body: createBody,
      response: { 201: refundSchema, 202: refundSchema },
      waits: 'by_default',
      key: 'required',
      examples: {
        requests: REFUND_REQUESTS,
        answer: { amount_minor: 300 },
        unfinished: { amount_minor: 300, status: 'pending', processor_reference: null },
      },
      errors: [
        'payment_not_found',
        'payment_not_refundable',
        'refund_exceeds_captured',
        'idempotency_key_reused',
        'payment_declined',
        'payment_invalid',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const payment_id = request.params.id
      const { body } = request
      const amount_minor = body.amount_minor ?? null
      const reason = body.reason ?? null
      return await accept(context, request, reply, {
        job: createRefund,
        reader,
        body,
        step: (requested, { id: refund_id }) =>
          request_refund({
            ...requested,
            payment_id,
            refund_id,
            amount_minor,
            reason,
            metadata: body.metadata,
          }),
        isFulfilled: ({ status }) => status === 'succeeded',
        explainRefusal: async () =>
          refusalUnlessHeld(context, await findRefusal(sql, tenant_id, payment_id, amount_minor)),
      })
    },
  )
}

async function findRefusal(
  sql: Sql,
  tenant_id: string,
  payment_id: string,
  amount_minor: number | null,
): Promise<AppError> {
  const payment = await findPayment(sql, tenant_id, payment_id)
  if (payment === undefined) return new AppError('payment_not_found')
  const { status, currency, amount_captured_minor, amount_refunded_minor } = payment
  const { amount_refund_pending_minor } = payment
  if (status !== 'captured') {
    return new AppError('payment_not_refundable', {
      message: `The payment cannot be refunded: it is ${status}.`,
      context: { status },
    })
  }
  if (amount_minor !== null && !settlesExactly(amount_minor, currency))
    return settlementStepError('payment_invalid', currency)
  const refundable_minor = amount_captured_minor - amount_refunded_minor - amount_refund_pending_minor
  const money = (some: number) => moneyText(some, currency)
  return new AppError('refund_exceeds_captured', {
    param: 'amount_minor',
    message:
      refundable_minor === 0
        ? 'Nothing is left to refund.'
        : `The refund is more than the ${money(refundable_minor)} that can be refunded.`,
    context: {
      requested_minor: amount_minor,
      amount_captured_minor,
      amount_refunded_minor,
      amount_refund_pending_minor,
      currency,
    },
  })
}
