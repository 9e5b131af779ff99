// The route of what is not reconciled: where our books and the processor's are known to differ.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { driftSchema, driftState, driftSubject, listDrifts } from '#domain/reconciliation/drift.ts'
import type { RouteContext } from '../context.ts'
import { EXAMPLE_ID, nextPage, pageQuery, route } from '../route.ts'

const listQuery = pageQuery.extend({
  state: driftState.optional().meta({ description: 'Only those of this state.' }),
  subject: driftSubject.optional().meta({ description: 'Only those of payments, for example.' }),
  payment_id: z
    .uuid()
    .optional()
    .meta({ description: 'Only those of one payment and its refunds.', example: EXAMPLE_ID }),
})

export function reconciliationRoutes(root: FastifyInstance, { lists }: RouteContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get(
    '/v1/reconciliation',
    route({
      area: 'payments',
      scope: 'payments:read',
      tag: 'reconciliation',
      operation_id: 'listDrifts',
      summary: 'List open drifts',
      description:
        'What the processor sees otherwise than we do, or of which nobody knows whether a call took effect: what we think, what the processor says, and since when. Shown are payments, refunds and disputes; payouts only to a key with `payouts:read`, top-ups with `wallet:read`, verifications with `compliance:read`. The processor is asked again after 5 s, 1, 5 and 30 minutes, 2 hours and then daily; what is mended is no longer listed. Empty when all agree.',
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
      const drifts = await lists(request, reply, (lists_sql) =>
        listDrifts(lists_sql, request.credentials, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, drifts))
      return drifts
    },
  )
}
