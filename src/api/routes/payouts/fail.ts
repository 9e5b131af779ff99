// The route that fails a payout manually.
import { z } from 'zod'
import { joinPayoutFail, requestPayoutFail } from '#domain/payouts/fail.ts'
import { OPEN_PAYOUT_STATUSES, payoutSchema, type Payout } from '#domain/payouts/payout.ts'
import { cancelPayout } from '#jobs/payouts.ts'
import { accept, type ResourceReader } from '../../accept.ts'
import { idempotencyKey } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { idParams, route } from '../../route.ts'
import { FAIL_REQUESTED, FAILED_MANUALLY } from './examples.ts'
import { refusalOfPayout } from './refusals.ts'

const failBody = z
  .strictObject({
    reason: z.string().min(1).max(1000).meta({
      description: "The reason; shown as the payout's failure.",
      example: 'The bank reports that the payout never arrived.',
    }),
    idempotency_key: idempotencyKey.meta({ example: 'payout-17-fail' }).optional(),
  })
  .meta({ id: 'FailPayout', description: 'The reason of the failure.' })

export function failPayoutRoute(app: RouteApp, context: RouteContext, reader: ResourceReader<Payout>): void {
  const { sql } = context

  app.post(
    '/v1/payouts/:id/fail',
    route({
      area: 'payouts',
      scope: 'payouts:write',
      operation_id: 'failPayout',
      summary: 'Fail a payout manually',
      description:
        'Fails a payout as soon as it can no longer be paid. A payout that was never sent, or that the processor always refused, is `failed` at once (200): its amount is released, and it will not be sent. If a call is in progress, its outcome is unknown or the processor has accepted the payout, the request is recorded (202, `fail_requested_at`), and the payout is canceled at the processor. It then becomes `failed` when the processor refuses, cancels, fails or returns it, or `paid` if the processor pays it; then the request has no effect (event `payout.fail_overtaken`). Transfers are not canceled at the processor and never reversed. A second request joins the first. A request also joins an earlier cancellation: then the payout ends as `canceled` if the processor cancels it. With `Prefer: wait=N` the answer comes when the payout is final: 200, or 409 if it was paid.',
      params: idParams,
      body: failBody,
      response: { 200: payoutSchema, 202: payoutSchema },
      waits: 'if_requested',
      key: 'optional',
      examples: {
        requests: {
          reason: {
            summary: 'With a reason',
            value: { reason: 'The bank reports that the payout never arrived.' },
          },
        },
        answer: FAILED_MANUALLY,
        unfinished: FAIL_REQUESTED,
      },
      errors: ['payout_not_found', 'payout_not_failable', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { body } = request
      const { reason } = body
      const payout_id = request.params.id
      return await accept(context, request, reply, {
        job: cancelPayout,
        reader,
        id: payout_id,
        body,
        async step(requested) {
          const accepted = await requestPayoutFail(sql, { ...requested, payout_id, reason })
          if (accepted === 'key_used') return accepted
          if (accepted?.accepted === 'canceling') return 'accepted'
          if (accepted !== undefined) return { joined: accepted.job_id }
          const joined = await joinPayoutFail(sql, { ...requested, payout_id })
          return joined && { joined: joined.job_id, is_repetition: true }
        },
        waitUntil: ({ status }) => !OPEN_PAYOUT_STATUSES.includes(status),
        // A payout that was canceled first is not paid either: the manual failure is fulfilled.
        isFulfilled: ({ status }) => status === 'failed' || status === 'canceled',
        explainRefusal: () =>
          refusalOfPayout(sql, request.credentials.tenant_id, payout_id, 'payout_not_failable', 'failed'),
      })
    },
  )
}
