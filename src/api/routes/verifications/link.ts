// The route that requests another link to a verification.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGates } from '#core/gate.ts'
import { findVerification } from '#domain/verifications/find.ts'
import { MAX_OPEN_LINKS, requestVerificationLink } from '#domain/verifications/request.ts'
import { isOpenVerification, verificationSchema } from '#domain/verifications/verification.ts'
import { linkVerification } from '#jobs/verifications.ts'
import { accept } from '../../accept.ts'
import { idempotencyKey } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { requireResource } from '../../refusals.ts'
import { idParams, route } from '../../route.ts'
import type { VerificationReader } from './answers.ts'
import { WAITING_VERIFICATION } from './examples.ts'

const linkBody = z
  .strictObject({ idempotency_key: idempotencyKey.meta({ example: 'kyc-17-link' }).optional() })
  .meta({ id: 'LinkVerification', description: 'Only an idempotency key.' })
  .nullish()

export function linkVerificationRoute(
  app: RouteApp,
  context: RouteContext,
  reader: VerificationReader,
): void {
  const { sql } = context
  // Requests are serialized, so that links are counted correctly within this process. Each further API process may
  // allow one more link.
  const serialized = createGates({
    running: 1,
    queue: {
      waiting: 20,
      wait_ms: 5_000,
      refuse: () =>
        new AppError('rate_limited', {
          retry_after_s: 1,
          message: 'Too many requests for links to this verification at once: retry later.',
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
        'Requests another page for the person from the provider, if the link to the first page was used, was lost or has expired. Only one answer contains the `url` of the page. This is possible only while the verification requires input. While 10 requests for links to one verification are unfinished, further requests are refused with `rate_limited`.',
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
      const verification = await accept(context, request, reply, {
        job: linkVerification,
        reader,
        id: kyc_id,
        body: request.body ?? {},
        step: (requested) =>
          serialized(`${requested.tenant_id} ${kyc_id}`, () =>
            requestVerificationLink(sql, { ...requested, kyc_id }),
          ),
        isFulfilled: () => false,
        explainRefusal: () => findRefusal(sql, request.credentials.tenant_id, kyc_id),
      })
      return await reader.withLink(verification)
    },
  )
}

async function findRefusal(sql: Sql, tenant_id: string, kyc_id: string): Promise<AppError> {
  const { status } = requireResource(await findVerification(sql, tenant_id, kyc_id), 'kyc_not_found')
  if (status === 'requires_input') {
    const message = `${MAX_OPEN_LINKS} requests for links to this verification are unfinished: wait for one of them.`
    return new AppError('rate_limited', {
      message,
      retry_after_s: 1,
      context: { limit: MAX_OPEN_LINKS },
    })
  }
  const code = isOpenVerification(status) ? 'kyc_not_linkable' : 'kyc_already_decided'
  const message = `There is no link: the verification is ${status}.`
  return new AppError(code, { message, context: { status } })
}
