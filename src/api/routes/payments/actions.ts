// Routes that act on a payment: capture and cancel.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { batcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { amountMinor } from '#core/money.ts'
import { findPayment } from '#domain/payments/find.ts'
import { paymentSchema, type Payment } from '#domain/payments/payment.ts'
import {
  joinCancel,
  requestCancels,
  requestCaptures,
  type CancelRequest,
  type CaptureRequest,
} from '#domain/payments/request.ts'
import { authorizePayment } from '#jobs/payments.ts'
import { idempotencyKey } from '../../body.ts'
import type { ApiContext } from '../../context.ts'
import { acceptOnce, idempotent, keyOf } from '../../idempotent.ts'
import { idParams, route } from '../../route.ts'
import type { PaymentAnswers } from './answers.ts'
import { CANCELED, CANCELING, CAPTURED, CAPTURING } from './examples.ts'

const captureBody = z
  .strictObject({
    amount_minor: amountMinor
      .optional()
      .meta({ description: 'At most what is held; the rest is released. Left out: all.', example: 700 }),
    idempotency_key: idempotencyKey.meta({ example: 'order-17-capture' }).optional(),
  })
  .meta({ id: 'CapturePayment', description: 'What is taken.' })
  .nullish()

const cancelBody = z
  .strictObject({
    reason: z
      .enum(['requested_by_customer', 'duplicate', 'fraudulent', 'abandoned'])
      .nullish()
      .meta({ description: 'Why; the processor is told too.', example: 'requested_by_customer' }),
    idempotency_key: idempotencyKey.meta({ example: 'order-17-cancel' }).optional(),
  })
  .meta({ id: 'CancelPayment', description: 'Why it is canceled.' })
  .nullish()

type Action = {
  payment_id: string
  body: { idempotency_key?: string | undefined; amount_minor?: number | undefined }
  /** The status that is asked for, and the refusal of what cannot get there. */
  goal: 'captured' | 'canceled'
  refusal: 'payment_not_capturable' | 'payment_not_cancelable'
  /** Undefined: the guard refused. */
  accept: (step: Step) => Promise<Begun | undefined>
}
/** The job to wait for, or null where one that is under way will do it later; `own`: this request asked for it. */
type Begun = { job_id: string | null; own: boolean }
/** What each step of accepting brings. */
type Step = Omit<CaptureRequest, 'amount_minor'>

export function actionRoutes(
  root: FastifyInstance,
  { sql, doorbell }: ApiContext,
  answers: PaymentAnswers,
): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  const perPayment = { key: ({ payment_id }: { payment_id: string }) => payment_id }
  const capture = batcher<CaptureRequest, true | undefined>(
    'request_capture',
    async (requests) => {
      const accepted = await requestCaptures(sql, requests)
      return requests.map(({ payment_id }) => accepted.has(payment_id) || undefined)
    },
    perPayment,
  )
  const cancel = batcher<CancelRequest, 'canceling' | 'recorded' | undefined>(
    'request_cancel',
    async (requests) => {
      const accepted = await requestCancels(sql, requests)
      return requests.map(({ payment_id }) => accepted.get(payment_id))
    },
    perPayment,
  )

  app.post(
    '/v1/payments/:id/capture',
    route({
      area: 'payments',
      scope: 'payments:write',
      operation_id: 'capturePayment',
      summary: 'Capture a payment',
      description: `Takes what is held, or a part of it and releases the rest. No body is needed.`,
      params: idParams,
      body: captureBody,
      response: { 200: paymentSchema, 202: paymentSchema },
      waits: true,
      key: 'optional',
      examples: {
        requests: {
          all: { summary: 'All that is held; the body may be left out as well', value: {} },
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
      const body = request.body ?? {}
      return await act(request, reply, {
        payment_id: request.params.id,
        body,
        goal: 'captured',
        refusal: 'payment_not_capturable',
        async accept(step) {
          const accepted = await capture({ ...step, amount_minor: body.amount_minor ?? null })
          return accepted && { job_id: step.job_id, own: true }
        },
      })
    },
  )

  app.post(
    '/v1/payments/:id/cancel',
    route({
      area: 'payments',
      scope: 'payments:write',
      operation_id: 'cancelPayment',
      summary: 'Cancel a payment',
      description: `Releases what is held. While the authorization is still under way the wish is recorded (202), and the hold is voided as soon as it exists. A second cancellation while one is under way joins it.`,
      params: idParams,
      body: cancelBody,
      response: { 200: paymentSchema, 202: paymentSchema },
      waits: true,
      key: 'optional',
      examples: {
        requests: {
          reason: { summary: 'With a reason', value: { reason: 'requested_by_customer' } },
          bare: { summary: 'Without; the body may be left out as well', value: {} },
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
      const body = request.body ?? {}
      const reason = body.reason ?? null
      return await act(request, reply, {
        payment_id: request.params.id,
        body,
        goal: 'canceled',
        refusal: 'payment_not_cancelable',
        async accept(step) {
          const accepted = await cancel({ ...step, reason, cancellation_reason: reason })
          if (accepted === 'canceling') return { job_id: step.job_id, own: true }
          if (accepted === 'recorded') return { job_id: null, own: false }
          const joined = await joinCancel(sql, step)
          return joined && { ...joined, own: false }
        },
      })
    },
  )

  async function act(
    request: FastifyRequest,
    reply: FastifyReply,
    { payment_id, body, goal, refusal, accept }: Action,
  ): Promise<Payment> {
    const { tenant_id } = request.credentials
    const { idempotency_key: _, ...content } = body
    const asked = idempotent(request, keyOf(request, body), content)
    const ids = { job_id: newId(), event_id: newId() }
    const rung = doorbell.admits(authorizePayment.queue, tenant_id)
    const outcome = await acceptOnce(sql, { ...asked, tenant_id }, content, () =>
      accept({ ...asked, ...ids, tenant_id, payment_id, rung }),
    )
    if (outcome.kind === 'refused') throw await whyNot(tenant_id, payment_id, refusal, body.amount_minor)
    const replayed = outcome.kind === 'replayed'
    const fresh = outcome.kind === 'accepted' && outcome.value.own
    const { job_id } = replayed ? outcome.remembered : outcome.value
    const waited = answers.waited(request, reply, {
      job_id,
      fresh,
      payment_id,
      status: 200,
      replayed,
      reached: ({ status }) => status === goal,
    })
    if (rung && fresh) doorbell.ring({ id: ids.job_id, queue: authorizePayment.queue, tenant_id })
    return await waited
  }

  // The guard said no without saying why: the row as it stands now tells.
  async function whyNot(
    tenant_id: string,
    id: string,
    code: 'payment_not_capturable' | 'payment_not_cancelable',
    amount_minor?: number,
  ): Promise<AppError> {
    const payment = await findPayment(sql, tenant_id, id)
    if (payment === undefined) return new AppError('payment_not_found')
    const { status, amount_capturable_minor } = payment
    if (
      code === 'payment_not_capturable' &&
      status === 'authorized' &&
      amount_minor !== undefined &&
      amount_minor > amount_capturable_minor
    ) {
      return new AppError('amount_too_large', {
        param: 'amount_minor',
        message: `${amount_minor} is more than the ${amount_capturable_minor} that can be captured.`,
        context: { requested_minor: amount_minor, amount_capturable_minor },
      })
    }
    const verb = code === 'payment_not_capturable' ? 'captured' : 'canceled'
    return new AppError(code, {
      message: `The payment cannot be ${verb}: it is ${status}.`,
      context: { status },
    })
  }
}
