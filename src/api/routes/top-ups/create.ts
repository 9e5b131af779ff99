// The route that creates a top-up.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import { TOP_UPS } from '#core/config/providers.ts'
import { amountMinor, MAX_AMOUNT_MINOR, supportedCurrency } from '#core/money.ts'
import { AREAS } from '#domain/areas.ts'
import { requestTopUps, type TopUpRequest } from '#domain/top-ups/request.ts'
import { topUpSourceContext } from '#domain/top-ups/sealed.ts'
import { maskedSource, topUpSchema, type TopUp } from '#domain/top-ups/top-up.ts'
import { createTopUp } from '#jobs/top-ups.ts'
import { accept, type ResourceReader } from '../../accept.ts'
import { checkAmount, idempotencyKey, metadata, text } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { route } from '../../route.ts'
import { TOP_UP_PENDING, TOP_UP_REQUESTS } from './examples.ts'

/** A token of digits only could be an account or card number. */
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
    currency: supportedCurrency.transform((code) => code.toLowerCase()),
    source: token.meta({
      description:
        "The processor's token of the source of the money. Default: the bank account that the platform has set up with the processor. Answers show the token masked.",
      example: TOP_UPS.examples.source,
    }),
    description: text(1000).meta({ description: 'Your own description.', example: 'November' }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'top-up-2026-11-20' }).optional(),
  })
  .meta({ id: 'CreateTopUp', description: 'The top-up to create.' })

export function createTopUpRoute(app: RouteApp, context: RouteContext, reader: ResourceReader<TopUp>): void {
  const { sql, vault } = context
  const create = createBatcher<TopUpRequest, 'accepted' | 'key_used' | undefined>(
    'create_top_up',
    async (requests) => {
      const results = await requestTopUps(sql, requests)
      return requests.map(({ top_up_id }) => results.get(top_up_id))
    },
    { key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}` },
  )

  app.post(
    '/v1/wallet/top_ups',
    route({
      area: 'wallet',
      scope: 'wallet:write',
      tag: 'top_ups',
      operation_id: 'createTopUp',
      summary: 'Top up a balance',
      description:
        'Adds money to your balance through the processor, which can take days: the top-up is `pending` until the money has arrived. With `Prefer: wait`, the answer comes when the processor has accepted or refused it.',
      body: createBody,
      response: { 201: topUpSchema, 202: topUpSchema },
      waits: 'if_requested',
      key: 'required',
      examples: {
        requests: TOP_UP_REQUESTS,
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
      return await accept(context, request, reply, {
        job: createTopUp,
        reader,
        body,
        step(requested, { id: top_up_id }) {
          checkAmount(body, MAX_AMOUNT_MINOR)
          const { source } = body
          const sealed =
            source === null
              ? null
              : vault.seal(source, topUpSourceContext(requested.tenant_id, requested.job_id))
          return create({
            ...body,
            ...requested,
            top_up_id,
            source: sealed,
            masked_source: source === null ? null : maskedSource(source),
            processor: AREAS.wallet.provider,
          })
        },
        isFulfilled: ({ status }) => status === 'succeeded',
      })
    },
  )
}
