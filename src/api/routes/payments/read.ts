// Routes that read payments: list, retrieve, timeline.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { currencyCode } from '#core/money.ts'
import { dateTime } from '#core/time.ts'
import { listPayments } from '#domain/payments/find.ts'
import { paymentSchema, paymentStatus } from '#domain/payments/payment.ts'
import { capturePayment } from '#jobs/payments.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import {
  asInteger,
  EXAMPLE_ID,
  idParams,
  idText,
  nextPage,
  pageQuery,
  processorReference,
  route,
} from '../../route.ts'
import { timelineRoute } from '../../timeline.ts'
import type { PaymentReader } from './answers.ts'
import { AUTHORIZED } from './examples.ts'

const MAX_METADATA_FILTERS = 20

const amount = (description: string) =>
  z
    .string()
    .regex(/^\d{1,15}$/, { error: 'must be a whole number' })
    .transform(Number)
    .optional()
    .meta({ description, ...asInteger({ minimum: 0, maximum: 999_999_999_999_999 }), example: 1000 })

const filters = pageQuery.extend({
  status: paymentStatus.optional().meta({ description: 'Filter by status.' }),
  customer_id: idText.optional().meta({ description: 'Filter by customer.', example: EXAMPLE_ID }),
  merchant_id: idText.optional().meta({ description: 'Filter by merchant.', example: EXAMPLE_ID }),
  currency: currencyCode.optional().meta({ description: 'Filter by currency.' }),
  processor_reference: processorReference.optional().meta({
    description: "Filter by the processor's own id.",
    example: PAYMENTS.examples.payment,
  }),
  amount_min: amount('Payments with at least this `amount_minor`.'),
  amount_max: amount('Payments with at most this `amount_minor`.'),
  capture_before_to: dateTime.optional().meta({
    description: 'Authorized payments whose hold lapses before this time.',
  }),
  metadata: z
    .record(z.string(), z.string())
    .refine((wanted) => Object.keys(wanted).length <= MAX_METADATA_FILTERS, {
      error: `must have at most ${MAX_METADATA_FILTERS} filters`,
    })
    .optional()
    .meta({
      description:
        '`metadata[key]=value`: payments whose metadata has this value at the top level; at most 20 such filters.',
      propertyNames: undefined,
      example: { order: 'A-17' },
    }),
})

export function readPaymentRoutes(
  app: RouteApp,
  context: RouteContext,
  { viewOf, find }: PaymentReader,
): void {
  const { runList } = context
  app.get(
    '/v1/payments',
    route({
      area: 'payments',
      scope: 'payments:read',
      operation_id: 'listPayments',
      summary: 'List payments, newest first',
      description:
        "Strongly consistent: the list shows a payment's new status as soon as the request that changed it is answered.",
      querystring: filters,
      response: { 200: z.array(paymentSchema) },
      examples: { answer: AUTHORIZED },
      errors: [],
    }),
    async (request, reply) => {
      const { metadata = {}, ...query } = request.query
      const payments = await runList(request, reply, (lists_sql) =>
        listPayments(lists_sql, request.credentials.tenant_id, { ...query, metadata }),
      )
      reply.headers(nextPage(request.url, query.limit, payments))
      return payments.map(viewOf)
    },
  )

  app.get(
    '/v1/payments/:id',
    route({
      area: 'payments',
      scope: 'payments:read',
      operation_id: 'getPayment',
      summary: 'Retrieve a payment',
      examples: { answer: AUTHORIZED },
      params: idParams,
      response: { 200: paymentSchema },
      errors: ['payment_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await find({ tenant_id, id, job_id: null })).resource,
  )

  timelineRoute(
    app,
    context,
    {
      path: '/v1/payments',
      resource: 'payment',
      area: 'payments',
      scope: 'payments:read',
      operation_id: 'getPaymentTimeline',
      summary: 'Retrieve the timeline of a payment',
      entries: 'attempt, provider answer, webhook, ledger posting and event of the payment and its refunds',
      example: { call: capturePayment.call, reference: PAYMENTS.examples.payment },
      errors: ['payment_not_found'],
    },
    find,
  )
}
