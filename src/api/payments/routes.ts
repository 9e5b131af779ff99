// Routes of payments: create, list, retrieve, capture, cancel.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { batcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import { MAX_AMOUNT_MINOR, amountMinor, currencyCode, settlesExactly } from '#core/money.ts'
import { dateTime } from '#core/time.ts'
import {
  PAYMENT_STATUSES,
  findPayment,
  findPayments,
  listPayments,
  paymentSchema,
  type Payment,
} from '#domain/payments/payment.ts'
import {
  createPayments,
  requestCancels,
  requestCaptures,
  type CancelRequest,
  type CaptureRequest,
  type CreateRequest,
} from '#domain/payments/request.ts'
import { timelineEntrySchema, listTimeline } from '#domain/payments/timeline.ts'
import { authorizePayment } from '#jobs/payments.ts'
import { idempotencyKey, metadata, text } from './body.ts'
import type { ApiContext } from './context.ts'
import { acceptOnce, idempotent, keyOf, requiredKeyOf } from './idempotent.ts'
import { answerOutcome } from './outcome.ts'
import { idParams, idText, nextPage, page, route } from './route.ts'

const createBody = z.strictObject({
  amount_minor: amountMinor,
  currency: currencyCode.transform((code) => code.toUpperCase()),
  method: z.literal('card').meta({ description: 'The payment method; `card` is the only one so far.' }),
  customer_id: idText.nullish().transform((id) => id ?? null),
  description: text(1000),
  payment_method: text(255).meta({
    description:
      "A processor token, e.g. `pm_card_visa`. Without it the answer carries `client_secret` and the buyer confirms with the processor's own front end.",
    example: 'pm_card_visa',
  }),
  return_url: z
    .url({ protocol: /^https?$/ })
    .max(2048)
    .nullish()
    .transform((url) => url ?? null)
    .meta({ description: 'Where the buyer returns to after 3-D Secure.' }),
  metadata,
  idempotency_key: idempotencyKey.optional(),
})

const captureBody = z
  .strictObject({
    amount_minor: amountMinor
      .optional()
      .meta({ description: 'At most what is held; the rest is released. Left out: all.' }),
    idempotency_key: idempotencyKey.optional(),
  })
  .nullish()

const cancelBody = z
  .strictObject({
    reason: z.enum(['requested_by_customer', 'duplicate', 'fraudulent', 'abandoned']).nullish(),
    idempotency_key: idempotencyKey.optional(),
  })
  .nullish()

const amount = z
  .string()
  .regex(/^\d{1,15}$/, { error: 'must be a whole number' })
  .transform(Number)

const filters = page.extend({
  status: z.enum(PAYMENT_STATUSES).optional(),
  customer_id: idText.optional(),
  currency: currencyCode.optional(),
  amount_min: amount.optional(),
  amount_max: amount.optional(),
  created_from: dateTime.optional().meta({ description: 'Created at or after.' }),
  created_to: dateTime.optional().meta({ description: 'Created before.' }),
  metadata: z.record(z.string(), z.string()).optional().meta({
    description: '`metadata[key]=value`: payments whose metadata holds this value at the top level.',
  }),
})

export function paymentRoutes(root: FastifyInstance, context: ApiContext): void {
  const { sql, vault, doorbell } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  const perPayment = { key: ({ payment_id }: { payment_id: string }) => payment_id }
  const create = batcher<CreateRequest, true | undefined>(
    'create_payment',
    async (requests) => {
      const created = await createPayments(sql, requests)
      return requests.map(({ payment_id }) => created.has(payment_id) || undefined)
    },
    { key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}` },
  )
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
  const read = batcher<{ tenant_id: string; id: string }, Payment | undefined>(
    'find_payment',
    async (asked) => {
      const found = new Map((await findPayments(sql, asked)).map((payment) => [payment.id, payment]))
      return asked.map(({ id }) => found.get(id))
    },
  )

  const shown = (payment: Payment): Payment => ({
    ...payment,
    client_secret: payment.client_secret === null ? null : vault.open(payment.client_secret),
  })

  async function find(tenant_id: string, id: string): Promise<Payment> {
    const payment = await read({ tenant_id, id })
    if (payment === undefined) throw new AppError('payment_not_found')
    return shown(payment)
  }

  async function answer(
    request: FastifyRequest,
    reply: FastifyReply,
    done: { job_id: string | null; payment_id: string; status: 200 | 201; replayed: boolean },
  ) {
    const { tenant_id } = request.credentials
    return await answerOutcome(context, request, reply, {
      job_id: done.job_id,
      tenant_id,
      queue: 'payments',
      status: done.status,
      replayed: done.replayed,
      location: `/v1/payments/${done.payment_id}`,
      error_context: { payment_id: done.payment_id },
      find: () => find(tenant_id, done.payment_id),
    })
  }

  app.post(
    '/v1/payments',
    route({
      area: 'payments',
      scope: 'payments:write',
      summary: 'Create a payment',
      description: `Authorizes: the amount is held until it is captured or canceled.`,
      body: createBody,
      response: { 201: paymentSchema, 202: paymentSchema },
      waits: true,
      errors: [
        'payment_declined',
        'customer_not_found',
        'idempotency_key_reused',
        'amount_too_large',
        'payment_invalid',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { idempotency_key: _, ...body } = request.body
      const asked = idempotent(request, requiredKeyOf(request, request.body), body)
      if (body.amount_minor > MAX_AMOUNT_MINOR) {
        throw new AppError('amount_too_large', {
          param: 'amount_minor',
          message: `The amount is above ${MAX_AMOUNT_MINOR}.`,
        })
      }
      if (!settlesExactly(body.amount_minor, body.currency)) {
        throw new AppError('payment_invalid', {
          param: 'amount_minor',
          message: `Amounts in ${body.currency} must end in 0.`,
        })
      }
      const ids = { payment_id: newId(), job_id: newId(), event_id: newId() }
      const rung = doorbell.admits(authorizePayment.queue, tenant_id)
      const outcome = await acceptOnce(sql, tenant_id, asked, () =>
        create({ ...body, ...asked, ...ids, tenant_id, rung, processor: 'stripe' }),
      )
      if (outcome.kind === 'refused') throw new AppError('customer_not_found', { param: 'customer_id' })
      if (outcome.kind === 'replayed') {
        const { job_id, resource_id } = outcome.remembered
        return await answer(request, reply, { job_id, payment_id: resource_id, status: 201, replayed: true })
      }
      const waited = answer(request, reply, { ...ids, status: 201, replayed: false })
      if (rung) doorbell.ring({ id: ids.job_id, queue: authorizePayment.queue, tenant_id })
      return await waited
    },
  )

  app.get(
    '/v1/payments',
    route({
      area: 'payments',
      scope: 'payments:read',
      summary: 'List payments, newest first',
      description:
        'Strongly consistent: a payment is found by its new state as soon as the request that changed it is answered.',
      querystring: filters,
      response: { 200: z.array(paymentSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const { metadata = {}, ...query } = request.query
      const payments = await listPayments(sql, request.credentials.tenant_id, { ...query, metadata })
      reply.headers(nextPage(request.url, query.limit, payments))
      return payments.map(shown)
    },
  )

  app.get(
    '/v1/payments/:id',
    route({
      area: 'payments',
      scope: 'payments:read',
      summary: 'Retrieve a payment',
      params: idParams,
      response: { 200: paymentSchema },
      errors: ['payment_not_found'],
    }),
    async (request) => await find(request.credentials.tenant_id, request.params.id),
  )

  app.post(
    '/v1/payments/:id/capture',
    route({
      area: 'payments',
      scope: 'payments:write',
      summary: 'Capture a payment',
      description: `Takes what is held, or a part of it and releases the rest. No body is needed.`,
      params: idParams,
      body: captureBody,
      response: { 200: paymentSchema, 202: paymentSchema },
      waits: true,
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
      const { tenant_id } = request.credentials
      const payment_id = request.params.id
      const { idempotency_key: _, ...body } = request.body ?? {}
      const asked = idempotent(request, keyOf(request, request.body ?? {}), body)
      const ids = { job_id: newId(), event_id: newId() }
      const rung = doorbell.admits(authorizePayment.queue, tenant_id)
      const outcome = await acceptOnce(sql, tenant_id, asked, () =>
        capture({ ...asked, ...ids, tenant_id, payment_id, rung, amount_minor: body.amount_minor ?? null }),
      )
      if (outcome.kind === 'refused')
        throw await whyNot(tenant_id, payment_id, 'payment_not_capturable', body.amount_minor)
      if (outcome.kind === 'replayed') {
        return await answer(request, reply, {
          job_id: outcome.remembered.job_id,
          payment_id,
          status: 200,
          replayed: true,
        })
      }
      const waited = answer(request, reply, { job_id: ids.job_id, payment_id, status: 200, replayed: false })
      if (rung) doorbell.ring({ id: ids.job_id, queue: authorizePayment.queue, tenant_id })
      return await waited
    },
  )

  app.post(
    '/v1/payments/:id/cancel',
    route({
      area: 'payments',
      scope: 'payments:write',
      summary: 'Cancel a payment',
      description: `Releases what is held. While the authorization is still under way the wish is recorded (202), and the hold is voided as soon as it exists.`,
      params: idParams,
      body: cancelBody,
      response: { 200: paymentSchema, 202: paymentSchema },
      waits: true,
      errors: [
        'payment_not_found',
        'payment_not_cancelable',
        'idempotency_key_reused',
        'payment_invalid',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const payment_id = request.params.id
      const { idempotency_key: _, ...body } = request.body ?? {}
      const asked = idempotent(request, keyOf(request, request.body ?? {}), body)
      const ids = { job_id: newId(), event_id: newId() }
      const rung = doorbell.admits(authorizePayment.queue, tenant_id)
      const reason = body.reason ?? null
      const outcome = await acceptOnce(sql, tenant_id, asked, () =>
        cancel({ ...asked, ...ids, tenant_id, payment_id, rung, reason, cancellation_reason: reason }),
      )
      if (outcome.kind === 'refused') throw await whyNot(tenant_id, payment_id, 'payment_not_cancelable')
      const job_id =
        outcome.kind === 'replayed'
          ? outcome.remembered.job_id
          : outcome.value === 'canceling'
            ? ids.job_id
            : null
      if (job_id === null) {
        const payment = await find(tenant_id, payment_id)
        if (outcome.kind === 'replayed') reply.header('idempotent-replayed', 'true')
        return await reply
          .code(payment.status === 'canceled' ? 200 : 202)
          .header('location', `/v1/payments/${payment_id}`)
          .send(payment)
      }
      const waited = answer(request, reply, {
        job_id,
        payment_id,
        status: 200,
        replayed: outcome.kind === 'replayed',
      })
      if (rung && outcome.kind === 'accepted')
        doorbell.ring({ id: job_id, queue: authorizePayment.queue, tenant_id })
      return await waited
    },
  )

  app.get(
    '/v1/payments/:id/timeline',
    route({
      area: 'payments',
      scope: 'payments:read',
      summary: 'Explain a payment',
      description:
        'Every attempt, provider answer, webhook, ledger posting and event of the payment and its refunds, in order.',
      params: idParams,
      response: { 200: z.array(timelineEntrySchema) },
      errors: ['payment_not_found'],
    }),
    async (request) => {
      const { tenant_id } = request.credentials
      await find(tenant_id, request.params.id)
      return await listTimeline(sql, tenant_id, request.params.id)
    },
  )

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
