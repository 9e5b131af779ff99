// Routes that read refunds: list by payment, list all, retrieve.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { AppError } from '#core/errors.ts'
import { currencyCode } from '#core/money.ts'
import { findPayment } from '#domain/payments/find.ts'
import { listAllRefunds, listRefunds } from '#domain/refunds/find.ts'
import { refundSchema, refundStatus, type Refund } from '#domain/refunds/refund.ts'
import type { ResourceReader } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, nextPage, pageQuery, processorReference, route } from '../../route.ts'

const allQuery = pageQuery.extend({
  status: refundStatus.optional().meta({ description: 'Filter by status.' }),
  currency: currencyCode.optional().meta({ description: 'Filter by currency.' }),
  processor_reference: processorReference.optional().meta({
    description: "Filter by the processor's own id.",
    example: PAYMENTS.examples.refund,
  }),
})

export function readRefundRoutes(
  app: RouteApp,
  { sql, runList }: RouteContext,
  { find }: ResourceReader<Refund>,
): void {
  app.get(
    '/v1/payments/:id/refunds',
    route({
      area: 'payments',
      scope: 'payments:read',
      tag: 'refunds',
      operation_id: 'listRefunds',
      summary: 'List the refunds of a payment, newest first',
      params: idParams,
      querystring: pageQuery,
      response: { 200: z.array(refundSchema) },
      errors: ['payment_not_found'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      if ((await findPayment(sql, tenant_id, request.params.id)) === undefined)
        throw new AppError('payment_not_found')
      const refunds = await runList(request, reply, (lists_sql) =>
        listRefunds(lists_sql, tenant_id, request.params.id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, refunds))
      return refunds
    },
  )

  app.get(
    '/v1/refunds',
    route({
      area: 'payments',
      scope: 'payments:read',
      tag: 'refunds',
      operation_id: 'listAllRefunds',
      summary: 'List all refunds, newest first',
      description: "Lists the refunds of all payments, including those made in the processor's dashboard.",
      querystring: allQuery,
      response: { 200: z.array(refundSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const refunds = await runList(request, reply, (lists_sql) =>
        listAllRefunds(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, refunds))
      return refunds
    },
  )

  app.get(
    '/v1/refunds/:id',
    route({
      area: 'payments',
      scope: 'payments:read',
      tag: 'refunds',
      operation_id: 'getRefund',
      summary: 'Retrieve a refund',
      params: idParams,
      response: { 200: refundSchema },
      errors: ['refund_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await find({ tenant_id, id, job_id: null })).resource,
  )
}
