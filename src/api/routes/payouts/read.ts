// Routes that read payouts: list, retrieve, timeline.
import { z } from 'zod'
import { PAYOUTS } from '#core/config/providers.ts'
import { currencyCode } from '#core/money.ts'
import { listPayouts } from '#domain/payouts/find.ts'
import { payoutSchema, payoutStatus, type Payout } from '#domain/payouts/payout.ts'
import { createPayout } from '#jobs/payouts.ts'
import type { ResourceReader } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { EXAMPLE_ID, idParams, idText, nextPage, pageQuery, route } from '../../route.ts'
import { timelineRoute } from '../../timeline.ts'
import { PROCESSING_PAYOUT } from './examples.ts'

const filters = pageQuery.extend({
  status: payoutStatus.optional().meta({ description: 'Filter by status.' }),
  recipient_id: idText.optional().meta({ description: 'Filter by recipient.', example: EXAMPLE_ID }),
  currency: currencyCode.optional().meta({ description: 'Filter by currency.', example: 'usd' }),
})

export function readPayoutRoutes(
  app: RouteApp,
  context: RouteContext,
  { find }: ResourceReader<Payout>,
): void {
  const { runList } = context
  app.get(
    '/v1/payouts',
    route({
      area: 'payouts',
      scope: 'payouts:read',
      operation_id: 'listPayouts',
      summary: 'List payouts, newest first',
      querystring: filters,
      response: { 200: z.array(payoutSchema) },
      examples: { answer: PROCESSING_PAYOUT },
      errors: [],
    }),
    async (request, reply) => {
      const payouts = await runList(request, reply, (lists_sql) =>
        listPayouts(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, payouts))
      return payouts
    },
  )

  app.get(
    '/v1/payouts/:id',
    route({
      area: 'payouts',
      scope: 'payouts:read',
      operation_id: 'getPayout',
      summary: 'Retrieve a payout',
      examples: { answer: PROCESSING_PAYOUT },
      params: idParams,
      response: { 200: payoutSchema },
      errors: ['payout_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await find({ tenant_id, id, job_id: null })).resource,
  )

  timelineRoute(
    app,
    context,
    {
      path: '/v1/payouts',
      resource: 'payout',
      area: 'payouts',
      scope: 'payouts:read',
      operation_id: 'getPayoutTimeline',
      summary: 'Retrieve the timeline of a payout',
      entries: 'attempt, provider answer, webhook, ledger posting and event of the payout',
      example: { call: createPayout.call, reference: PAYOUTS.examples.payout },
      errors: ['payout_not_found'],
    },
    find,
  )
}
