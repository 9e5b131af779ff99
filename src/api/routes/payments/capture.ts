// The route that captures a payment.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import { amountMinor, moneyText, settlesExactly } from '#core/money.ts'
import { confirmCapture } from '#domain/payments/confirm.ts'
import { findPayment } from '#domain/payments/find.ts'
import { paymentSchema, type Payment } from '#domain/payments/payment.ts'
import { requestCaptures, type CaptureRequest } from '#domain/payments/request.ts'
import { capturePayment } from '#jobs/payments.ts'
import { accept } from '../../accept.ts'
import { idempotencyKey, settlementStepError } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, route } from '../../route.ts'
import type { PaymentReader } from './answers.ts'
import { CAPTURED, CAPTURING } from './examples.ts'

const captureBody = z
  .strictObject({
    amount_minor: amountMinor.optional().meta({
      description:
        'The amount to capture, at most the amount on hold; the rest is released. Defaults to the full amount.',
      example: 700,
    }),
    idempotency_key: idempotencyKey.meta({ example: 'order-17-capture' }).optional(),
  })
  .meta({ id: 'CapturePayment', description: 'The amount to capture.' })
  .nullish()

export function capturePaymentRoute(app: RouteApp, context: RouteContext, reader: PaymentReader): void {
  const { sql } = context
  const capture = createBatcher<CaptureRequest, 'accepted' | undefined>(
    'request_capture',
    async (requests) => {
      const accepted = await requestCaptures(sql, requests)
      return requests.map(({ payment_id }) => (accepted.has(payment_id) ? 'accepted' : undefined))
    },
    { key: ({ tenant_id, payment_id }) => `${tenant_id} ${payment_id}` },
  )

  app.post(
    '/v1/payments/:id/capture',
    route({
      area: 'payments',
      scope: 'payments:write',
      operation_id: 'capturePayment',
      summary: 'Capture a payment',
      description: `Captures the amount on hold, or captures a part and releases the rest. The body is optional.`,
      params: idParams,
      body: captureBody,
      response: { 200: paymentSchema, 202: paymentSchema },
      waits: 'by_default',
      key: 'optional',
      examples: {
        requests: {
          all: { summary: 'The full amount on hold; the body is optional', value: {} },
          part: {
            summary: 'A part; the rest is released',
            value: { amount_minor: 700, idempotency_key: 'order-17-capture' },
          },
        },
        answer: CAPTURED,
        unfinished: CAPTURING,
      },
      errors: [
        'payment_not_found',
        'payment_not_capturable',
        'amount_too_large',
        'idempotency_key_reused',
        'payment_declined',
        'payment_invalid',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const payment_id = request.params.id
      const body = request.body ?? {}
      const amount_minor = body.amount_minor ?? null
      return await accept(context, request, reply, {
        job: capturePayment,
        reader,
        id: payment_id,
        body,
        async step(requested) {
          const capturing = { ...requested, payment_id, amount_minor }
          const accepted = await capture(capturing)
          if (accepted !== undefined) return accepted
          return (await confirmCapture(sql, capturing)) ? 'accepted' : undefined
        },
        isFulfilled: (payment) =>
          payment.status === 'captured' &&
          payment.amount_captured_minor === (amount_minor ?? payment.amount_minor),
        async explainRefusal() {
          const payment = await findPayment(sql, request.credentials.tenant_id, payment_id)
          return captureRefusal(payment, amount_minor)
        },
      })
    },
  )
}

function captureRefusal(payment: Payment | undefined, amount_minor: number | null): AppError {
  if (payment === undefined) return new AppError('payment_not_found')
  const { status, currency, amount_capturable_minor, amount_captured_minor } = payment
  if (status === 'captured')
    return new AppError('payment_not_capturable', {
      message: `The payment cannot be captured: ${moneyText(amount_captured_minor, currency)} is already captured.`,
      context: { status, amount_captured_minor, currency },
    })
  if (status === 'authorized' && amount_minor !== null) {
    if (amount_minor > amount_capturable_minor)
      return new AppError('amount_too_large', {
        param: 'amount_minor',
        message: `${moneyText(amount_minor, currency)} is more than the ${moneyText(amount_capturable_minor, currency)} that can be captured.`,
        context: { requested_minor: amount_minor, amount_capturable_minor, currency },
      })
    if (!settlesExactly(amount_minor, currency)) return settlementStepError('payment_invalid', currency)
  }
  return new AppError('payment_not_capturable', {
    message: `The payment cannot be captured: it is ${status}.`,
    context: { status },
  })
}
