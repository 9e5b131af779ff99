// Routes that read disputes: list and retrieve. Disputes are opened at the processor.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { disputeSchema, disputeStatus } from '#domain/disputes/dispute.ts'
import { findDispute, listDisputes } from '#domain/disputes/find.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { EXAMPLE_ID, idParams, idText, nextPage, pageQuery, route } from '../route.ts'

const filters = pageQuery.extend({
  status: disputeStatus.optional().meta({ description: 'Filter by status.' }),
  payment_id: idText.optional().meta({ description: 'Filter by payment.', example: EXAMPLE_ID }),
})

export function disputeRoutes(app: RouteApp, { sql, runList }: RouteContext): void {
  app.get(
    '/v1/disputes',
    route({
      area: 'payments',
      scope: 'payments:read',
      tag: 'disputes',
      operation_id: 'listDisputes',
      summary: 'List disputes, newest first',
      description:
        "The buyer's bank opens a dispute, and you answer it in the processor's dashboard. Here you see its status and the amount that it took from your balance.",
      querystring: filters,
      response: { 200: z.array(disputeSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const disputes = await runList(request, reply, (lists_sql) =>
        listDisputes(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, disputes))
      return disputes
    },
  )

  app.get(
    '/v1/disputes/:id',
    route({
      area: 'payments',
      scope: 'payments:read',
      tag: 'disputes',
      operation_id: 'getDispute',
      summary: 'Retrieve a dispute',
      params: idParams,
      response: { 200: disputeSchema },
      errors: ['dispute_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) => {
      const dispute = await findDispute(sql, tenant_id, id)
      if (dispute === undefined) throw new AppError('dispute_not_found')
      return dispute
    },
  )
}
