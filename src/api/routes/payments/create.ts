// The route that creates a payment.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import { PAYMENTS } from '#core/config/providers.ts'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { amountMinor, maxPaymentMinor, supportedCurrency } from '#core/money.ts'
import { AREAS } from '#domain/areas.ts'
import { paymentSchema, type Payment } from '#domain/payments/payment.ts'
import { createPayments, type CreateRequest } from '#domain/payments/request.ts'
import { paymentMethodContext } from '#domain/payments/sealed.ts'
import { findRecord } from '#domain/records.ts'
import { authorizePayment } from '#jobs/payments.ts'
import { accept } from '../../accept.ts'
import { checkAmount, httpUrl, idempotencyKey, metadata, text } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { EXAMPLE_ID, idText, route } from '../../route.ts'
import type { PaymentReader } from './answers.ts'
import { AUTHORIZED, PENDING, PAYMENT_REQUESTS } from './examples.ts'

/** At least 13 digits with any separators, not part of a word: a card number, possibly mistyped. */
const CARD_NUMBER = /(?<![\p{L}\p{Nd}])(?:\p{Nd}[^\p{L}\p{Nd}]*){12,}\p{Nd}(?![\p{L}\p{Nd}])/u
// The message never includes the input.
const NO_CARD_NUMBER = `must be a token of the processor, such as ${PAYMENTS.examples.payment_method}, never a card number: the processor's own front end takes the card and gives you a token`

const paymentMethod = z
  .string({
    error: ({ input }) =>
      typeof input === 'number' && CARD_NUMBER.test(String(input)) ? NO_CARD_NUMBER : undefined,
  })
  .max(255, { abort: true })
  .refine((token) => !CARD_NUMBER.test(token), { error: NO_CARD_NUMBER })
  .nullish()
  .transform((token) => token ?? null)
  .meta({
    description: `A processor token, such as \`${PAYMENTS.examples.payment_method}\`; never a card number, which is refused and not stored. Without it, the answer has a \`client_secret\`, and the buyer confirms in the processor's front end.`,
    example: PAYMENTS.examples.payment_method,
  })

const createBody = z
  .strictObject({
    amount_minor: amountMinor,
    currency: supportedCurrency.transform((code) => code.toUpperCase()),
    method: z
      .literal('card')
      .meta({ description: 'The payment method. Currently only `card`.', example: 'card' }),
    customer_id: idText
      .nullish()
      .transform((id) => id ?? null)
      .meta({ description: 'The id of the customer who pays.', example: EXAMPLE_ID }),
    merchant_id: idText
      .nullish()
      .transform((id) => id ?? null)
      .meta({
        description: 'The id of the merchant on whose behalf you accept the payment.',
        example: EXAMPLE_ID,
      }),
    description: text(1000).meta({ description: 'Your own description.', example: 'Order 17' }),
    payment_method: paymentMethod,
    return_url: httpUrl
      .nullish()
      .transform((url) => url ?? null)
      .meta({
        description: 'Where the buyer returns after 3-D Secure; http or https.',
        example: 'https://shop.example/orders/17',
      }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'order-17-payment' }).optional(),
  })
  .meta({ id: 'CreatePayment', description: 'The payment to create.' })

/**
 * Whether the authorization has ended without a refusal. A refused authorization is answered with the error of its job.
 */
const isFulfilled = ({ status }: Payment) => status !== 'pending' && status !== 'failed'

export function createPaymentRoute(app: RouteApp, context: RouteContext, reader: PaymentReader): void {
  const { sql, vault } = context
  const create = createBatcher<CreateRequest, 'accepted' | 'key_used' | undefined>(
    'create_payment',
    async (requests) => {
      const results = await createPayments(sql, requests)
      return requests.map(({ payment_id }) => results.get(payment_id))
    },
    { key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}` },
  )

  app.post(
    '/v1/payments',
    route({
      area: 'payments',
      scope: 'payments:write',
      operation_id: 'createPayment',
      summary: 'Create a payment',
      description: `Authorizes a payment: the amount is on hold until you capture or cancel it.`,
      body: createBody,
      response: { 201: paymentSchema, 202: paymentSchema },
      waits: 'by_default',
      key: 'required',
      examples: {
        requests: PAYMENT_REQUESTS,
        answer: AUTHORIZED,
        unfinished: PENDING,
      },
      errors: [
        'payment_declined',
        'customer_not_found',
        'merchant_not_found',
        'idempotency_key_reused',
        'amount_too_large',
        'payment_invalid',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const { body } = request
      return await accept(context, request, reply, {
        job: authorizePayment,
        reader,
        body,
        step(requested, { id: payment_id }) {
          checkAmount(body, maxPaymentMinor(body.currency))
          const sealing_context = paymentMethodContext(requested.tenant_id, requested.job_id)
          const payment_method =
            body.payment_method === null ? null : vault.seal(body.payment_method, sealing_context)
          return create({
            ...body,
            ...requested,
            payment_id,
            payment_method,
            processor: AREAS.payments.provider,
          })
        },
        isFulfilled,
        explainRefusal: () => findRefusal(sql, request.credentials.tenant_id, body),
      })
    },
  )
}

async function findRefusal(
  sql: Sql,
  tenant_id: string,
  { customer_id, merchant_id }: { customer_id: string | null; merchant_id: string | null },
): Promise<AppError> {
  const no_customer = new AppError('customer_not_found', { param: 'customer_id' })
  if (merchant_id === null) return no_customer
  const merchant = await findRecord(sql, 'merchant', { tenant_id, id: merchant_id })
  if (merchant !== undefined && merchant.archived_at !== null)
    return new AppError('payment_invalid', { param: 'merchant_id', message: 'The merchant is archived.' })
  // If the request names no customer, only the merchant can have been missing. If the merchant exists now, it was
  // created after the statement ran.
  if (merchant === undefined || customer_id === null)
    return new AppError('merchant_not_found', { param: 'merchant_id' })
  return no_customer
}
