// The route that starts a verification.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { AppError, type ErrorCode } from '#core/errors.ts'
import { AREAS } from '#domain/areas.ts'
import { findVerificationSubject, requestVerification } from '#domain/verifications/request.ts'
import {
  verificationSchema,
  verificationSubjectType,
  type VerificationSubjectType,
} from '#domain/verifications/verification.ts'
import { createVerification } from '#jobs/verifications.ts'
import { accept } from '../../accept.ts'
import { httpUrl, idempotencyKey, metadata } from '../../body.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { EXAMPLE_ID, idText, route } from '../../route.ts'
import type { VerificationReader } from './answers.ts'
import { PENDING_VERIFICATION } from './examples.ts'

const createBody = z
  .strictObject({
    subject_type: verificationSubjectType,
    subject_id: idText.meta({
      description: 'The id of the customer, merchant or recipient to verify.',
      example: EXAMPLE_ID,
    }),
    return_url: httpUrl
      .nullish()
      .transform((url) => url ?? null)
      .meta({
        description: "The URL to which the person is sent after the provider's page; http or https.",
        example: 'https://shop.example/verified',
      }),
    metadata,
    idempotency_key: idempotencyKey.meta({ example: 'kyc-recipient-17' }).optional(),
  })
  .meta({ id: 'CreateVerification', description: 'The verification to create.' })

const NOT_FOUND: Record<VerificationSubjectType, ErrorCode> = {
  customer: 'customer_not_found',
  merchant: 'merchant_not_found',
  recipient: 'recipient_not_found',
}

export function createVerificationRoute(
  app: RouteApp,
  context: RouteContext,
  reader: VerificationReader,
): void {
  const { sql } = context

  app.post(
    '/v1/compliance/kyc',
    route({
      area: 'compliance',
      scope: 'compliance:write',
      tag: 'verifications',
      operation_id: 'createKyc',
      summary: 'Start a verification',
      description:
        "Opens a session at the identity provider. The answer contains the `url` of the provider's page, to which you send the person. Only one answer contains this `url`: a repeated request with the same key returns it only if no earlier answer did. A subject can have one open verification at a time. A deleted customer and an archived merchant or recipient cannot be verified.",
      body: createBody,
      response: { 201: verificationSchema, 202: verificationSchema },
      waits: 'by_default',
      key: 'required',
      examples: {
        requests: {
          recipient: {
            summary: 'A recipient',
            value: {
              idempotency_key: 'kyc-recipient-17',
              subject_type: 'recipient',
              subject_id: EXAMPLE_ID,
              return_url: 'https://shop.example/verified',
            },
          },
        },
        unfinished: PENDING_VERIFICATION,
      },
      errors: [
        'customer_not_found',
        'merchant_not_found',
        'recipient_not_found',
        'kyc_open',
        'kyc_invalid',
        'idempotency_key_reused',
        'kyc_refused',
        'kyc_already_decided',
        'processor_error',
      ],
    }),
    async (request, reply) => {
      const { body } = request
      const verification = await accept(context, request, reply, {
        job: createVerification,
        reader,
        body,
        step: (requested, { id: kyc_id }) =>
          requestVerification(sql, { ...body, ...requested, kyc_id, provider: AREAS.compliance.provider }),
        isFulfilled: ({ status }) => status !== 'pending',
        explainRefusal: () => findRefusal(sql, request.credentials.tenant_id, body),
      })
      return await reader.withLink(verification)
    },
  )
}

async function findRefusal(
  sql: Sql,
  tenant_id: string,
  { subject_type, subject_id }: z.output<typeof createBody>,
): Promise<AppError> {
  const subject = await findVerificationSubject(sql, { tenant_id, subject_type, subject_id })
  if (subject === undefined) return new AppError(NOT_FOUND[subject_type], { param: 'subject_id' })
  if (subject.is_removed) {
    const became = subject_type === 'customer' ? 'deleted' : 'archived'
    return new AppError('kyc_invalid', {
      param: 'subject_id',
      message: `The ${subject_type} is ${became}.`,
    })
  }
  return new AppError('kyc_open', {
    param: 'subject_id',
    message: `A verification of this ${subject_type} is still open.`,
    context: { kyc_id: subject.kyc_id },
  })
}
