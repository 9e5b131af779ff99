// Routes that read top-ups: list, retrieve, timeline.
import { z } from 'zod'
import { TOP_UPS } from '#core/config/providers.ts'
import { currencyCode } from '#core/money.ts'
import { listTopUps } from '#domain/top-ups/find.ts'
import { topUpSchema, topUpStatus, type TopUp } from '#domain/top-ups/top-up.ts'
import { createTopUp } from '#jobs/top-ups.ts'
import type { ResourceReader } from '../../accept.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, nextPage, pageQuery, route } from '../../route.ts'
import { timelineRoute } from '../../timeline.ts'

export function readTopUpRoutes(app: RouteApp, context: RouteContext, { find }: ResourceReader<TopUp>): void {
  const { runList } = context

  app.get(
    '/v1/wallet/top_ups',
    route({
      area: 'wallet',
      scope: 'wallet:read',
      tag: 'top_ups',
      operation_id: 'listTopUps',
      summary: 'List top-ups, newest first',
      querystring: pageQuery.extend({
        status: topUpStatus.optional().meta({ description: 'Filter by status.' }),
        currency: currencyCode.optional().meta({ description: 'Filter by currency.', example: 'usd' }),
      }),
      response: { 200: z.array(topUpSchema) },
      errors: [],
    }),
    async (request, reply) => {
      const top_ups = await runList(request, reply, (lists_sql) =>
        listTopUps(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, top_ups))
      return top_ups
    },
  )

  app.get(
    '/v1/wallet/top_ups/:id',
    route({
      area: 'wallet',
      scope: 'wallet:read',
      tag: 'top_ups',
      operation_id: 'getTopUp',
      summary: 'Retrieve a top-up',
      params: idParams,
      response: { 200: topUpSchema },
      errors: ['top_up_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await find({ tenant_id, id, job_id: null })).resource,
  )

  timelineRoute(
    app,
    context,
    {
      path: '/v1/wallet/top_ups',
      resource: 'top_up',
      area: 'wallet',
      scope: 'wallet:read',
      tag: 'top_ups',
      operation_id: 'getTopUpTimeline',
      summary: 'Retrieve the timeline of a top-up',
      entries: 'attempt, provider answer, webhook, ledger posting and event of the top-up',
      example: { call: createTopUp.call, reference: TOP_UPS.examples.top_up },
      errors: ['top_up_not_found'],
    },
    find,
  )
}
