// Routes that act on a verification: another link, or a decision by hand.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { createGates } from '#core/gate.ts'
import { newId } from '#core/ids.ts'
import { findVerification, findProtectedVerification } from '#domain/verifications/find.ts'
import {
  decideVerification,
  MOST_OPEN_LINKS,
  requestVerificationLink,
} from '#domain/verifications/request.ts'
import { isOpen, verificationDecision, verificationSchema } from '#domain/verifications/verification.ts'
import { linkVerification } from '#jobs/verifications.ts'
import { accept, acceptAtOnce } from '../../accept.ts'
import { idempotencyKey } from '../../body.ts'
import type { ApiContext } from '../../context.ts'
import { found } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import { withoutLink, type VerificationAnswers } from './answers.ts'
import { DECIDED_VERIFICATION, WAITING_VERIFICATION } from './examples.ts'

const linkBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'kyc-17-link' }).optional() })
  .meta({ id: 'LinkVerification', description: 'Only an idempotency key.' })
  .nullish()

const decideBody = z
  .strictObject({
    decision: verificationDecision,
    reason: z
      .string()
      .min(1)
      .max(1000)
      .meta({ description: 'The reason; shown as `decision_reason`.', example: 'Seen in person.' }),
    idempotency_key: idempotencyKey.meta({ example: 'kyc-17-decide' }).optional(),
  })
  .meta({ id: 'DecideVerification', description: 'The decision and its reason.' })

export function verificationActionRoutes(
  root: FastifyInstance,
  context: ApiContext,
  answers: VerificationAnswers,
): void {
  const { sql } = context
  const app = root.withTypeProvider<ZodTypeProvider>()
  // So that links are counted right; beside other processes there may be one more for each of these.
  const oneByOne = createGates({
    running: 1,
    queue: {
      waiting: 20,
      wait_ms: 5_000,
      refuse: () =>
        new AppError('rate_limited', {
          retry_after_s: 1,
          message: 'Too many requests for links to this verification at once.',
        }),
    },
  })

  app.post(
    '/v1/compliance/kyc/:id/link',
    route({
      area: 'compliance',
      scope: 'compliance:write',
      tag: 'verifications',
      operation_id: 'linkKyc',
      summary: 'Request another link',
      description:
        'Asks the provider for another page for the person, if the first was used or lost or has expired. The answer has it as `url`, once. You can get one only while the verification requires input. While 10 requests for links to one verification are unfinished, further requests are refused with `rate_limited`.',
      params: idParams,
      body: linkBody,
      response: { 200: verificationSchema, 202: verificationSchema },
      waits: 'by_default',
      key: 'optional',
      examples: {
        requests: { bare: { summary: 'The body is optional', value: {} } },
        unfinished: WAITING_VERIFICATION,
      },
      errors: [
        'kyc_not_found',
        'kyc_already_decided',
        'kyc_not_linkable',
        'idempotency_key_reused',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const kyc_id = request.params.id
      const answered = await accept(context, request, reply, {
        job: linkVerification,
        answers,
        id: kyc_id,
        body: request.body ?? {},
        step: (asked) =>
          oneByOne(`${asked.tenant_id} ${kyc_id}`, () => requestVerificationLink(sql, { ...asked, kyc_id })),
        reached: () => false,
        async why_not() {
          const { status } = found(
            await findVerification(sql, request.credentials.tenant_id, kyc_id),
            'kyc_not_found',
          )
          if (status === 'requires_input') {
            const message = `${MOST_OPEN_LINKS} requests for links to this verification are unfinished: wait for one of them.`
            return new AppError('rate_limited', {
              message,
              retry_after_s: 1,
              context: { limit: MOST_OPEN_LINKS },
            })
          }
          const code = isOpen(status) ? 'kyc_not_linkable' : 'kyc_already_decided'
          const message = `There is no link: the verification is ${status}.`
          return new AppError(code, { message, context: { status } })
        },
      })
      return await answers.withLink(answered)
    },
  )

  app.post(
    '/v1/compliance/kyc/:id/decide',
    route({
      area: 'compliance',
      scope: 'compliance:write',
      tag: 'verifications',
      operation_id: 'decideKyc',
      summary: 'Decide a verification manually',
      description:
        'Approves or rejects a verification at once and finally, in any state, even after the provider has decided. You can do this once. A session that still waits for the person is canceled. Later reports from the provider appear in the timeline and change nothing. The verification names the API key that decided.',
      params: idParams,
      body: decideBody,
      response: { 200: verificationSchema },
      key: 'optional',
      examples: {
        requests: {
          approve: { summary: 'Approve', value: { decision: 'approved', reason: 'Seen in person.' } },
          reject: {
            summary: 'Reject',
            value: { decision: 'rejected', reason: 'The document is a copy.' },
          },
        },
        answer: DECIDED_VERIFICATION,
      },
      errors: ['kyc_not_found', 'kyc_already_decided', 'idempotency_key_reused'],
    }),
    async (request, reply) => {
      const { body } = request
      const kyc_id = request.params.id
      const { tenant_id, key_id } = request.credentials
      const ids = { kyc_id, key_id, event_id: newId(), job_id: newId() }
      request.subject_id = kyc_id
      const decided = await acceptAtOnce(context, request, reply, {
        body,
        step: (asked) =>
          decideVerification(sql, { ...asked, ...ids, decision: body.decision, reason: body.reason }),
        find: (sent) => findProtectedVerification(sql, sent),
        async why_not() {
          const { status } = found(await findVerification(sql, tenant_id, kyc_id), 'kyc_not_found')
          const message = `The verification was decided by hand before: it is ${status}.`
          return new AppError('kyc_already_decided', { message, context: { status } })
        },
      })
      return withoutLink(decided)
    },
  )
}
