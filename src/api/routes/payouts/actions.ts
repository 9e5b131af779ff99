// Routes that act on a payout: cancel it, or fail it by hand.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { batcher } from '#core/batch.ts'
import { AppError } from '#core/errors.ts'
import { isCancelDropped } from '#domain/cancellations.ts'
import { joinPayoutFail, requestPayoutFail } from '#domain/payouts/fail.ts'
import { findPayout } from '#domain/payouts/find.ts'
import { OPEN_STATUSES, payoutSchema, type Payout } from '#domain/payouts/payout.ts'
import { joinPayoutCancel, requestPayoutCancels, type PayoutCancelRequest } from '#domain/payouts/request.ts'
import { cancelPayout } from '#jobs/payouts.ts'
import { accept, type Answers } from '../../accept.ts'
import { idempotencyKey } from '../../body.ts'
import type { ApiContext } from '../../context.ts'
import { idParams, route } from '../../route.ts'
import { CANCELED_PAYOUT, FAIL_REQUESTED, FAILED_BY_HAND, PROCESSING_PAYOUT } from './examples.ts'

const cancelBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'payout-17-cancel' }).optional() })
  .meta({ id: 'CancelPayout', description: 'Only an idempotency key.' })
  .nullish()

const failBody = z
  .strictObject({
    reason: z.string().min(1).max(1000).meta({
      description: "The reason; shown as the payout's failure.",
      example: 'The bank says that it never arrived.',
    }),
    idempotency_key: idempotencyKey.meta({ example: 'payout-17-fail' }).optional(),
  })
  .meta({ id: 'FailPayout', description: 'Why the payout failed.' })

export function payoutActionRoutes(
  root: FastifyInstance,
  context: ApiContext,
  answers: Answers<Payout>,
): void {
  const { sql } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  const cancel = batcher<PayoutCancelRequest, 'canceled' | 'canceling' | 'recorded' | undefined>(
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
        'Cancels a payout at once if it has not been sent to the processor. If the processor has accepted it, it is canceled if the processor still allows that; otherwise the request is refused (409). While it is not known whether the processor has it, the cancellation is recorded (202) and carried out later. A second cancellation while one is in progress joins it, and so does one of a payout whose manual failure was requested: then the payout ends as `failed`.',
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
        answers,
        id: payout_id,
        body: request.body ?? {},
        async step(asked) {
          const accepted = await cancel({ ...asked, payout_id })
          if (accepted === 'canceling') return 'accepted'
          if (accepted !== undefined) return { joined: null }
          const joined = await joinPayoutCancel(sql, { ...asked, payout_id })
          return joined && { joined: joined.job_id }
        },
        // One that joined a failure by hand has ended with it.
        reached: ({ status, fail_requested_at }) =>
          status === 'canceled' || (status === 'failed' && fail_requested_at !== null),
        may_end_otherwise: true,
        dropped: async (payout) =>
          payout.fail_requested_at === null
            ? await isCancelDropped(sql, 'payout', payout)
            : payout.status === 'paid',
        why_not: () => whyNot(request.credentials.tenant_id, payout_id, 'payout_not_cancelable', 'canceled'),
      })
    },
  )

  app.post(
    '/v1/payouts/:id/fail',
    route({
      area: 'payouts',
      scope: 'payouts:write',
      operation_id: 'failPayout',
      summary: 'Fail a payout manually',
      description:
        'Fails a payout as soon as nothing can leave any more. One that was never sent, or whose every sending was refused, is `failed` at once (200), its amount is released, and it will not be sent. If its call is in progress, its outcome is not known or the processor has accepted it, the request is recorded (202, `fail_requested_at`), and the processor is asked to let go of it. The payout then becomes `failed` when the processor refuses it, lets go of it, fails it or returns it, or `paid` if the processor pays it: then the request is void (event `payout.fail_overtaken`). A transfer is not asked for and never reversed. A second request joins the first, and so does one after a cancellation: then the payout ends as `canceled` if the processor lets go of it. With `Prefer: wait=N` the answer comes when the payout has ended: 200, or 409 if it was paid.',
      params: idParams,
      body: failBody,
      response: { 200: payoutSchema, 202: payoutSchema },
      waits: 'if_asked',
      key: 'optional',
      examples: {
        requests: {
          reason: { summary: 'With a reason', value: { reason: 'The bank says that it never arrived.' } },
        },
        answer: FAILED_BY_HAND,
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
        answers,
        id: payout_id,
        body,
        async step(asked) {
          const accepted = await requestPayoutFail(sql, { ...asked, payout_id, reason })
          if (accepted === 'known') return accepted
          if (accepted?.accepted === 'canceling') return 'accepted'
          const joined = accepted ?? (await joinPayoutFail(sql, { ...asked, payout_id }))
          return joined && { joined: joined.job_id }
        },
        until: ({ status }) => !OPEN_STATUSES.includes(status),
        // It may have been canceled before: nothing has left then, either.
        reached: ({ status }) => status === 'failed' || status === 'canceled',
        why_not: () => whyNot(request.credentials.tenant_id, payout_id, 'payout_not_failable', 'failed'),
      })
    },
  )

  async function whyNot(
    tenant_id: string,
    payout_id: string,
    code: 'payout_not_cancelable' | 'payout_not_failable',
    verb: 'canceled' | 'failed',
  ): Promise<AppError> {
    const payout = await findPayout(sql, tenant_id, payout_id)
    if (payout === undefined) return new AppError('payout_not_found')
    const { status } = payout
    return new AppError(code, {
      message: `The payout cannot be ${verb}: it is ${status}.`,
      context: { status },
    })
  }
}
