// The route that decides a verification manually.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { findVerification, findVerificationByKey } from '#domain/verifications/find.ts'
import { decideVerification } from '#domain/verifications/request.ts'
import { verificationDecision, verificationSchema } from '#domain/verifications/verification.ts'
import { acceptWithoutJob } from '../../accept-without-job.ts'
import { idempotencyKey } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { withoutLink } from './answers.ts'
import { DECIDED_VERIFICATION } from './examples.ts'

const decideBody = z
  .strictObject({
    decision: verificationDecision,
    reason: z.string().min(1).max(1000).meta({
      description: 'The reason; shown as `decision_reason`.',
      example: 'The document was seen in person.',
    }),
    idempotency_key: idempotencyKey.meta({ example: 'kyc-17-decide' }).optional(),
  })
  .meta({ id: 'DecideVerification', description: 'The decision and its reason.' })

export function decideVerificationRoute(app: RouteApp, context: RouteContext): void {
  const { sql } = context

  app.post(
    '/v1/compliance/kyc/:id/decide',
    route({
      area: 'compliance',
      scope: 'compliance:write',
      tag: 'verifications',
      operation_id: 'decideKyc',
      summary: 'Decide a verification manually',
      description:
        'Approves or rejects a verification at once and finally, in any state, even after the provider has decided. You can do this once. A session that still waits for the person is canceled. An outdated verification cannot be decided. Later reports from the provider appear in the timeline and change nothing. The verification names the API key that decided.',
      params: idParams,
      body: decideBody,
      response: { 200: verificationSchema },
      key: 'optional',
      examples: {
        requests: {
          approve: {
            summary: 'Approve',
            value: { decision: 'approved', reason: 'The document was seen in person.' },
          },
          reject: {
            summary: 'Reject',
            value: { decision: 'rejected', reason: 'The document is a copy.' },
          },
        },
        answer: DECIDED_VERIFICATION,
      },
      errors: ['kyc_not_found', 'kyc_already_decided', 'kyc_outdated', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { body } = request
      const kyc_id = request.params.id
      const { tenant_id, key_id } = request.credentials
      request.resource_id = kyc_id
      const decided = await acceptWithoutJob(context, request, reply, {
        body,
        step: (requested, { event_id, job_id }) =>
          decideVerification(sql, { ...body, ...requested, kyc_id, key_id, event_id, job_id }),
        find: (sent) => findVerificationByKey(sql, sent),
        async explainRefusal() {
          const found = requireResource(await findVerification(sql, tenant_id, kyc_id), 'kyc_not_found')
          const { status, decided_by, outdated } = found
          if (outdated && decided_by !== 'manual')
            return new AppError('kyc_outdated', { context: { status } })
          const message = `The verification was already decided manually: it is ${status}.`
          return new AppError('kyc_already_decided', { message, context: { status } })
        },
      })
      return withoutLink(decided)
    },
  )
}
