// The route that creates a payout.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import { amountMinor, moneyText, settlesExactly, supportedCurrency } from '#core/money.ts'
import { AREAS } from '#domain/areas.ts'
import { payoutSchema, type Payout } from '#domain/payouts/payout.ts'
import { requestPayouts, type PayoutRequest, type PayoutResult } from '#domain/payouts/request.ts'
import { createPayout } from '#jobs/payouts.ts'
import { accept, type ResourceReader } from '../../accept.ts'
import { idempotencyKey, metadata, text, settlementStepError } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { refusalUnlessHeld } from '../../lost-commits.ts'
import { EXAMPLE_ID, idText, route } from '../../route.ts'
import { PAYOUT_REQUESTS, PENDING_PAYOUT } from './examples.ts'

const createBody = z
  .strictObject({
    amount_minor: amountMinor,
    currency: supportedCurrency.transform((code) => code.toLowerCase()).meta({ example: 'usd' }),
    recipient_id: idText.meta({
      description: 'The id of the recipient. The currency of the recipient must be the same.',
      example: EXAMPLE_ID,
    }),
    description: text(1000).meta({ description: 'Your own description.', example: 'November' }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'payout-2026-11-20' }).optional(),
  })
  .meta({ id: 'CreatePayout', description: 'The payout to create.' })
type CreateBody = z.output<typeof createBody>

export function createPayoutRoute(
  app: RouteApp,
  context: RouteContext,
  reader: ResourceReader<Payout>,
): void {
  const { sql } = context
  const create = createBatcher<PayoutRequest, PayoutResult>(
    'create_payout',
    async (requests) => {
      const results = await requestPayouts(sql, requests)
      return requests.map(({ payout_id }) => results.get(payout_id)!)
    },
    {
      key: ({ tenant_id, idempotency_key }) => `${tenant_id} ${idempotency_key}`,
      // All payouts from one balance lock the row of the balance.
      lane: ({ tenant_id, currency }) => `${tenant_id} ${currency}`,
    },
  )

  app.post(
    '/v1/payouts',
    route({
      area: 'payouts',
      scope: 'payouts:write',
      operation_id: 'createPayout',
      summary: 'Create a payout',
      description:
        'Pays a recipient from your available balance: the balance in that currency minus what other payouts have reserved. The amount is checked and reserved in one step, so concurrent payouts can never take more than is available. If the request waits, it is answered when the processor has accepted or refused the payout.',
      body: createBody,
      response: { 201: payoutSchema, 202: payoutSchema },
      waits: 'if_requested',
      key: 'required',
      examples: {
        requests: PAYOUT_REQUESTS,
        answer: PENDING_PAYOUT,
        unfinished: PENDING_PAYOUT,
      },
      errors: [
        'recipient_not_found',
        'payout_invalid',
        'insufficient_balance',
        'idempotency_key_reused',
        'payout_refused',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const { body } = request
      let outcome: PayoutResult | undefined
      return await accept(context, request, reply, {
        job: createPayout,
        reader,
        body,
        async step(requested, { id: payout_id }) {
          const exact = settlesExactly(body.amount_minor, body.currency, 'payout')
          const { provider: processor } = AREAS.payouts
          outcome = await create({ ...body, ...requested, payout_id, exact, processor })
          const { result, payout } = outcome
          if (payout !== undefined) return { created: payout }
          return result === 'key_used' ? result : undefined
        },
        isFulfilled: ({ status }) => status === 'processing' || status === 'paid',
        explainRefusal: () =>
          refusalUnlessHeld(context, refusalOf(outcome, body), outcome?.result === 'recipient_lost'),
      })
    },
  )
}

const INVALID_PAYOUT_TEXTS: Partial<
  Record<PayoutResult['result'], (body: CreateBody) => [param: string, message: string]>
> = {
  recipient_archived: () => ['recipient_id', 'The recipient is archived.'],
  recipient_lost: () => [
    'recipient_id',
    'The database lost the destination of the recipient. Repeat the request that created the recipient, with its idempotency key.',
  ],
  other_currency: ({ currency }) => ['currency', `The recipient is not paid in ${currency}.`],
  recipient_rejected: () => ['recipient_id', 'The verification of the recipient was rejected.'],
}

/** The refusal, by the result of the accepting statement. */
function refusalOf(outcome: PayoutResult | undefined, body: CreateBody): AppError {
  if (outcome?.result === 'recipient_not_found')
    return new AppError('recipient_not_found', { param: 'recipient_id' })
  if (outcome?.result === 'too_precise') return settlementStepError('payout_invalid', body.currency)
  const invalid = outcome && INVALID_PAYOUT_TEXTS[outcome.result]?.(body)
  if (invalid !== undefined) return new AppError('payout_invalid', { param: invalid[0], message: invalid[1] })
  const { amount_minor: requested_minor, currency } = body
  const available_minor = outcome?.available_minor ?? 0
  return new AppError('insufficient_balance', {
    param: 'amount_minor',
    message: `${moneyText(requested_minor, currency)} is more than the ${moneyText(available_minor, currency)} that is available.`,
    context: { available_minor, requested_minor, currency },
  })
}
