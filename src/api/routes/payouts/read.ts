// Routes that read payouts: list, retrieve, explain.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { currencyCode } from '#core/money.ts'
import { listPayouts } from '#domain/payouts/find.ts'
import { payoutSchema, payoutStatus, type Payout } from '#domain/payouts/payout.ts'
import { listTimeline, timelineEntrySchema } from '#domain/timeline.ts'
import type { Answers } from '../../accept.ts'
import type { RouteContext } from '../../context.ts'
import {
  EXAMPLE_ID,
  idParams,
  idText,
  nextPage,
  pageBefore,
  pageQuery,
  route,
  timelinePage,
} from '../../route.ts'
import { PROCESSING_PAYOUT } from './examples.ts'

const filters = pageQuery.extend({
  status: payoutStatus.optional().meta({ description: 'Only those of this status.' }),
  recipient_id: idText.optional().meta({ description: 'Only those to this recipient.', example: EXAMPLE_ID }),
  currency: currencyCode.optional().meta({ description: 'Only those in this currency.', example: 'usd' }),
})

export function readPayoutRoutes(
  root: FastifyInstance,
  { lists }: RouteContext,
  { find }: Answers<Payout>,
): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

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
      const payouts = await lists(request, reply, (lists_sql) =>
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

  app.get(
    '/v1/payouts/:id/timeline',
    route({
      area: 'payouts',
      scope: 'payouts:read',
      operation_id: 'getPayoutTimeline',
      summary: 'Explain a payout',
      description:
        'Every attempt, provider answer, webhook, ledger posting and event of the payout, oldest first: the last `limit` of them, or the last before `before`. Entries of one moment are never parted, so there may be a few more than `limit`. A full page links to what came before it.',
      params: idParams,
      querystring: timelinePage,
      response: { 200: z.array(timelineEntrySchema) },
      errors: ['payout_not_found'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { id } = request.params
      await find({ tenant_id, id, job_id: null })
      const entries = await lists(request, reply, (lists_sql) =>
        listTimeline(lists_sql, { tenant_id, subject: 'payout', subject_id: id }, request.query),
      )
      reply.headers(pageBefore(request.url, request.query.limit, entries))
      return entries
    },
  )
}
