// The route of drifts: open differences between our records and the processor's.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { driftSchema, driftState, driftSubject, listDrifts } from '#domain/reconciliation/drift.ts'
import type { RouteApp, RouteContext } from '../context.ts'
import { EXAMPLE_ID, nextPage, pageQuery, route } from '../route.ts'

const listQuery = pageQuery.extend({
  state: driftState.optional().meta({ description: 'Filter by state.' }),
  subject: driftSubject.optional().meta({ description: 'Filter by type of resource.' }),
  payment_id: z
    .uuid()
    .optional()
    .meta({ description: 'Filter by payment; includes its refunds.', example: EXAMPLE_ID }),
})

export function reconciliationRoutes(app: RouteApp, { runList }: RouteContext): void {
  app.get(
    '/v1/reconciliation',
    route({
      area: 'payments',
      scope: 'payments:read',
      tag: 'reconciliation',
      operation_id: 'listDrifts',
      summary: 'List open drifts',
      description:
        "Lists resources whose record at the processor differs from ours, and resources with a call of unknown outcome. Each drift has our record, the processor's record and the time of its detection. The list shows payments, refunds and disputes; payouts only to a key with `payouts:read`, top-ups with `wallet:read`, verifications with `compliance:read`. The processor is queried again after 5 s, 1, 5 and 30 minutes, 2 hours and then daily; a resolved drift is no longer listed. The list is empty if everything agrees.",
      querystring: listQuery,
      response: { 200: z.array(driftSchema) },
      examples: {
        answer: {
          theirs: {
            status: 'canceled',
            amount_minor: 1000,
            currency: 'USD',
            processor_reference: PAYMENTS.examples.payment,
          },
        },
      },
      errors: [],
    }),
    async (request, reply) => {
      const drifts = await runList(request, reply, (lists_sql) =>
        listDrifts(lists_sql, request.credentials, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, drifts))
      return drifts
    },
  )
}
