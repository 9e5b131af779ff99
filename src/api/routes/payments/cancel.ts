// The route that cancels a payment.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import { isCancelDropped } from '#domain/cancellations.ts'
import { confirmCancel } from '#domain/payments/confirm.ts'
import { findPayment } from '#domain/payments/find.ts'
import { paymentSchema, type Payment } from '#domain/payments/payment.ts'
import { joinCancel, requestCancels, type CancelRequest } from '#domain/payments/request.ts'
import { cancelPayment } from '#jobs/payments.ts'
import { accept } from '../../accept.ts'
import { idempotencyKey } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, route } from '../../route.ts'
import type { PaymentReader } from './answers.ts'
import { CANCELED, CANCELING } from './examples.ts'

const cancelBody = z
  .strictObject({
    reason: z.enum(['requested_by_customer', 'duplicate', 'fraudulent', 'abandoned']).nullish().meta({
      description: 'The reason. It is also sent to the processor.',
      example: 'requested_by_customer',
    }),
    idempotency_key: idempotencyKey.meta({ example: 'order-17-cancel' }).optional(),
  })
  .meta({ id: 'CancelPayment', description: 'The reason of the cancellation.' })
  .nullish()

export function cancelPaymentRoute(app: RouteApp, context: RouteContext, reader: PaymentReader): void {
  const { sql } = context
  const cancel = createBatcher<CancelRequest, 'canceling' | 'recorded' | undefined>(
    'request_cancel',
    async (requests) => {
      const accepted = await requestCancels(sql, requests)
      return requests.map(({ payment_id }) => accepted.get(payment_id))
    },
    { key: ({ tenant_id, payment_id }) => `${tenant_id} ${payment_id}` },
  )

  app.post(
    '/v1/payments/:id/cancel',
    route({
      area: 'payments',
      scope: 'payments:write',
      operation_id: 'cancelPayment',
      summary: 'Cancel a payment',
      description: `Releases the amount on hold. While the authorization is still in progress, the cancellation is recorded (202), and the hold is voided as soon as it exists. A second cancellation while one is in progress joins it, unless it names another reason.`,
      params: idParams,
      body: cancelBody,
      response: { 200: paymentSchema, 202: paymentSchema },
      waits: 'by_default',
      key: 'optional',
      examples: {
        requests: {
          reason: { summary: 'With a reason', value: { reason: 'requested_by_customer' } },
          bare: { summary: 'Without a reason; the body is optional', value: {} },
        },
        answer: CANCELED,
        unfinished: CANCELING,
      },
      errors: [
        'payment_not_found',
        'payment_not_cancelable',
        'idempotency_key_reused',
        'payment_invalid',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const payment_id = request.params.id
      const body = request.body ?? {}
      const reason = body.reason ?? null
      return await accept(context, request, reply, {
        job: cancelPayment,
        reader,
        id: payment_id,
        body,
        async step(requested) {
          const accepted = await cancel({ ...requested, payment_id, reason, cancellation_reason: reason })
          if (accepted === 'canceling') return 'accepted'
          if (accepted === 'recorded') return { joined: null }
          const joined = await joinCancel(sql, { ...requested, payment_id, reason })
          if (joined !== undefined) return { joined: joined.job_id, is_repetition: true }
          const confirms = await confirmCancel(sql, { ...requested, payment_id, reason })
          return confirms ? 'accepted' : undefined
        },
        isFulfilled: ({ status }) => status === 'canceled',
        isDropped: (payment) => isCancelDropped(sql, 'payment', payment),
        async explainRefusal() {
          const payment = await findPayment(sql, request.credentials.tenant_id, payment_id)
          return cancelRefusal(payment, reason)
        },
      })
    },
  )
}

function cancelRefusal(payment: Payment | undefined, reason: string | null): AppError {
  if (payment === undefined) return new AppError('payment_not_found')
  const { status, cancellation_reason } = payment
  const other = status === 'canceling' || status === 'pending'
  const message =
    other && reason !== null
      ? `The payment cannot be canceled as ${reason}: it is already being canceled, ${cancellation_reason === null ? 'for no given reason' : `as ${cancellation_reason}`}.`
      : `The payment cannot be canceled: it is ${status}.`
  return new AppError('payment_not_cancelable', {
    message,
    context: { status, ...(other && { cancellation_reason }) },
  })
}
