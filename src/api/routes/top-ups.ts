// Routes of top-ups.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { batcher } from '#core/batch.ts'
import { TOP_UPS } from '#core/config/providers.ts'
import { newId } from '#core/ids.ts'
import { amountMinor, currencyCode, MAX_AMOUNT_MINOR, takenCurrency } from '#core/money.ts'
import { AREAS } from '#domain/areas.ts'
import { findTopUps, listTopUps } from '#domain/top-ups/find.ts'
import { requestTopUps, type TopUpRequest } from '#domain/top-ups/request.ts'
import { sourcePlace } from '#domain/top-ups/sealed.ts'
import { maskedSource, topUpSchema, topUpStatus, type TopUp } from '#domain/top-ups/top-up.ts'
import { createTopUp } from '#jobs/top-ups.ts'
import { accept, finding, type Answers } from '../accept.ts'
import { checkAmount, idempotencyKey, metadata, text } from '../body.ts'
import type { RouteContext } from '../context.ts'
import { idParams, nextPage, pageQuery, route } from '../route.ts'
import { timelineRoute } from '../timeline.ts'

/** Digits alone would be the number of an account or a card. */
const token = z
  .string()
  .max(255, { abort: true })
  .regex(/^[a-z]+_[0-9_]*[A-Za-z][A-Za-z0-9_]*$/, {
    error: 'must be a token of the processor, such as src_...',
  })
  .nullish()
  .transform((value) => value ?? null)

const createBody = z
  .strictObject({
    amount_minor: amountMinor,
    currency: takenCurrency.transform((code) => code.toLowerCase()),
    source: token.meta({
      description:
        'A processor token for where the money comes from. Defaults to the bank account that the platform has set up with the processor. It is shown masked.',
      example: TOP_UPS.examples.source,
    }),
    description: text(1000).meta({ description: 'A description of your own.', example: 'November' }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'top-up-2026-11-20' }).optional(),
  })
  .meta({ id: 'CreateTopUp', description: 'The top-up to create.' })

export const TOP_UP_PENDING = { status: 'pending', processor_reference: null, succeeded_at: null } as const
export const TOP_UP_FAILED = {
  status: 'failed',
  failure: { code: 'insufficient_funds', message: 'The bank account does not have enough funds.' },
  failed_at: '2026-11-24T10:15:30.123456Z',
} as const

export function topUpRoutes(root: FastifyInstance, context: RouteContext): void {
  const { sql, lists, vault } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const create = batcher<TopUpRequest, 'accepted' | 'known' | undefined>(
    'create_top_up',
    async (requests) => {
      const became = await requestTopUps(sql, requests)
      return requests.map(({ top_up_id }) => became.get(top_up_id))
    },
    { key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}` },
  )
  const answers: Answers<TopUp> = {
    find: finding('find_top_up', (asked) => findTopUps(sql, asked), 'top_up_not_found'),
    pathOf: ({ id }) => `/v1/wallet/top_ups/${id}`,
    idsOf: ({ id }) => ({ top_up_id: id }),
  }

  app.post(
    '/v1/wallet/top_ups',
    route({
      area: 'wallet',
      scope: 'wallet:write',
      tag: 'top_ups',
      operation_id: 'createTopUp',
      summary: 'Top up a balance',
      description:
        'Adds money to your balance through the processor, which can take days: the top-up is `pending` until the money has come. With `Prefer: wait`, the answer comes when the processor has accepted or refused it.',
      body: createBody,
      response: { 201: topUpSchema, 202: topUpSchema },
      waits: 'if_asked',
      key: 'required',
      examples: {
        requests: {
          source: {
            summary: 'From a source, given by its token',
            value: {
              idempotency_key: 'top-up-2026-11-20',
              amount_minor: 10_000,
              currency: 'usd',
              source: TOP_UPS.examples.source,
              description: 'November',
            },
          },
          bare: {
            summary: 'From the bank account of the platform',
            value: { idempotency_key: 'top-up-2026-11-21', amount_minor: 10_000, currency: 'eur' },
          },
        },
        answer: { ...TOP_UP_PENDING, source: maskedSource(TOP_UPS.examples.source) },
        unfinished: { ...TOP_UP_PENDING, source: maskedSource(TOP_UPS.examples.source) },
      },
      errors: [
        'idempotency_key_reused',
        'amount_too_large',
        'payment_declined',
        'payment_invalid',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const { body } = request
      const top_up_id = newId()
      return await accept(context, request, reply, {
        job: createTopUp,
        answers,
        id: top_up_id,
        body,
        step(asked) {
          checkAmount(body, MAX_AMOUNT_MINOR)
          const { source } = body
          const sealed =
            source === null ? null : vault.seal(source, sourcePlace(asked.tenant_id, asked.job_id))
          return create({
            ...body,
            ...asked,
            top_up_id,
            source: sealed,
            masked_source: source === null ? null : maskedSource(source),
            processor: AREAS.wallet.provider,
          })
        },
        reached: ({ status }) => status === 'succeeded',
      })
    },
  )

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
      const top_ups = await lists(request, reply, (lists_sql) =>
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
      (await answers.find({ tenant_id, id, job_id: null })).resource,
  )

  timelineRoute(
    root,
    context,
    {
      path: '/v1/wallet/top_ups',
      subject: 'top_up',
      area: 'wallet',
      scope: 'wallet:read',
      tag: 'top_ups',
      operation_id: 'getTopUpTimeline',
      summary: 'Explain a top-up',
      entries: 'attempt, provider answer, webhook, ledger posting and event of the top-up',
      example: { call: createTopUp.call, reference: TOP_UPS.examples.top_up },
      errors: ['top_up_not_found'],
    },
    answers.find,
  )
}
