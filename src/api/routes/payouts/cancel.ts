// The route that cancels a payout.
import { z } from 'zod'
import { createBatcher } from '#core/batch.ts'
import { isCancelDropped } from '#domain/cancellations.ts'
import { payoutSchema, type Payout } from '#domain/payouts/payout.ts'
import { joinPayoutCancel, requestPayoutCancels, type PayoutCancelRequest } from '#domain/payouts/request.ts'
import { cancelPayout } from '#jobs/payouts.ts'
import { accept, type ResourceReader } from '../../accept.ts'
import { idempotencyKey } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, route } from '../../route.ts'
import { CANCELED_PAYOUT, PROCESSING_PAYOUT } from './examples.ts'
import { refusalOfPayout } from './refusals.ts'

const cancelBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'payout-17-cancel' }).optional() })
  .meta({ id: 'CancelPayout', description: 'Only an idempotency key.' })
  .nullish()

export function cancelPayoutRoute(
  app: RouteApp,
  context: RouteContext,
  reader: ResourceReader<Payout>,
): void {
  const { sql } = context
  const cancel = createBatcher<PayoutCancelRequest, 'canceled' | 'canceling' | 'recorded' | undefined>(
    'cancel_payout',
    async (requests) => {
      const accepted = await requestPayoutCancels(sql, requests)
      return requests.map(({ payout_id }) => accepted.get(payout_id))
    },
    { key: ({ tenant_id, payout_id }) => `${tenant_id} ${payout_id}` },
  )

  app.post(
    '/v1/payouts/:id/cancel',
    route({
      area: 'payouts',
      scope: 'payouts:write',
      operation_id: 'cancelPayout',
      summary: 'Cancel a payout',
      description:
        'Cancels a payout at once if it has not been sent to the processor. A payout that the processor has accepted is canceled if the processor still allows it; otherwise the request is refused (409). While it is unknown whether the processor has the payout, the cancellation is recorded (202) and carried out later. A cancellation joins an earlier one that is in progress. It also joins a requested manual failure: then the payout ends as `failed`.',
      params: idParams,
      body: cancelBody,
      response: { 200: payoutSchema, 202: payoutSchema },
      waits: 'by_default',
      key: 'optional',
      examples: {
        requests: { bare: { summary: 'The body is optional', value: {} } },
        answer: CANCELED_PAYOUT,
        unfinished: PROCESSING_PAYOUT,
      },
      errors: ['payout_not_found', 'payout_not_cancelable', 'idempotency_key_reused', 'processor_error'],
    }),
    async (request, reply) => {
      const payout_id = request.params.id
      return await accept(context, request, reply, {
        job: cancelPayout,
        reader,
        id: payout_id,
        body: request.body ?? {},
        async step(requested) {
          const accepted = await cancel({ ...requested, payout_id })
          if (accepted === 'canceling') return 'accepted'
          if (accepted !== undefined) return { joined: null }
          const joined = await joinPayoutCancel(sql, { ...requested, payout_id })
          return joined && { joined: joined.job_id, is_repetition: true }
        },
        // A cancellation that joined a manual failure is fulfilled when the payout fails.
        isFulfilled: ({ status, fail_requested_at }) =>
          status === 'canceled' || (status === 'failed' && fail_requested_at !== null),
        can_succeed_unfulfilled: true,
        isDropped: async (payout) =>
          payout.fail_requested_at === null
            ? await isCancelDropped(sql, 'payout', payout)
            : payout.status === 'paid',
        explainRefusal: () =>
          refusalOfPayout(sql, request.credentials.tenant_id, payout_id, 'payout_not_cancelable', 'canceled'),
      })
    },
  )
}
