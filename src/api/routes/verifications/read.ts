// Routes that read verifications: list, retrieve, timeline.
import { z } from 'zod'
import { IDENTITY } from '#core/config/providers.ts'
import { listVerifications } from '#domain/verifications/find.ts'
import {
  verificationSchema,
  verificationSubjectType,
  verificationStatus,
} from '#domain/verifications/verification.ts'
import { createVerification } from '#jobs/verifications.ts'
import type { RouteApp, RouteContext } from '../../context.ts'
import { EXAMPLE_ID, booleanFilter, idParams, idText, nextPage, pageQuery, route } from '../../route.ts'
import { timelineRoute } from '../../timeline.ts'
import { withoutLink, type VerificationReader } from './answers.ts'
import { WAITING_VERIFICATION } from './examples.ts'

const filters = pageQuery.extend({
  status: verificationStatus.optional().meta({ description: 'Filter by status.' }),
  subject_type: verificationSubjectType.optional().meta({ description: 'Filter by type of subject.' }),
  subject_id: idText.optional().meta({ description: 'Filter by subject.', example: EXAMPLE_ID }),
  open: booleanFilter('Only verifications without a decision.'),
})

export function readVerificationRoutes(
  app: RouteApp,
  context: RouteContext,
  { find }: VerificationReader,
): void {
  const { runList } = context
  app.get(
    '/v1/compliance/kyc',
    route({
      area: 'compliance',
      scope: 'compliance:read',
      tag: 'verifications',
      operation_id: 'listKyc',
      summary: 'List verifications, newest first',
      querystring: filters,
      response: { 200: z.array(verificationSchema) },
      examples: { answer: WAITING_VERIFICATION },
      errors: [],
    }),
    async (request, reply) => {
      const found = await runList(request, reply, (lists_sql) =>
        listVerifications(lists_sql, request.credentials.tenant_id, request.query),
      )
      reply.headers(nextPage(request.url, request.query.limit, found))
      return found.map(withoutLink)
    },
  )

  app.get(
    '/v1/compliance/kyc/:id',
    route({
      area: 'compliance',
      scope: 'compliance:read',
      tag: 'verifications',
      operation_id: 'getKyc',
      summary: 'Retrieve a verification',
      examples: { answer: WAITING_VERIFICATION },
      params: idParams,
      response: { 200: verificationSchema },
      errors: ['kyc_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      withoutLink((await find({ tenant_id, id, job_id: null })).resource),
  )

  timelineRoute(
    app,
    context,
    {
      path: '/v1/compliance/kyc',
      resource: 'kyc',
      area: 'compliance',
      scope: 'compliance:read',
      tag: 'verifications',
      operation_id: 'getKycTimeline',
      summary: 'Retrieve the timeline of a verification',
      entries:
        'attempt, provider answer, webhook and event of the verification, including provider reports after a decision',
      example: { call: createVerification.call, reference: IDENTITY.examples.session },
      errors: ['kyc_not_found'],
    },
    find,
  )
}
