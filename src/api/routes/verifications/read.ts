// Routes that read verifications: list, retrieve, explain.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { listTimeline, timelineEntrySchema } from '#domain/timeline.ts'
import { listKyc } from '#domain/verifications/find.ts'
import { kycSchema, kycSubjectType, verificationStatus } from '#domain/verifications/verification.ts'
import type { RouteContext } from '../../context.ts'
import {
  EXAMPLE_ID,
  idParams,
  idText,
  nextPage,
  pageBefore,
  pageQuery,
  route,
  timelinePage,
} from '../../route.ts'
import { withoutLink, type KycAnswers } from './answers.ts'
import { WAITING_KYC } from './examples.ts'

const filters = pageQuery.extend({
  status: verificationStatus.optional().meta({ description: 'Only those of this status.' }),
  subject_type: kycSubjectType.optional().meta({ description: 'Only those of such subjects.' }),
  subject_id: idText.optional().meta({ description: 'Only those of this subject.', example: EXAMPLE_ID }),
})

export function readKycRoutes(root: FastifyInstance, { lists }: RouteContext, { find }: KycAnswers): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get(
    '/v1/compliance/kyc',
    route({
      area: 'compliance',
      scope: 'compliance:read',
      tag: 'verifications',
      operation_id: 'listKyc',
      summary: 'List verifications, newest first',
      querystring: filters,
      response: { 200: z.array(kycSchema) },
      examples: { answer: WAITING_KYC },
      errors: [],
    }),
    async (request, reply) => {
      const found = await lists(request, reply, (lists_sql) =>
        listKyc(lists_sql, request.credentials.tenant_id, request.query),
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
      examples: { answer: WAITING_KYC },
      params: idParams,
      response: { 200: kycSchema },
      errors: ['kyc_not_found'],
    }),
    async ({ credentials: { tenant_id }, params: { id } }) =>
      withoutLink((await find({ tenant_id, id, job_id: null })).resource),
  )

  app.get(
    '/v1/compliance/kyc/:id/timeline',
    route({
      area: 'compliance',
      scope: 'compliance:read',
      tag: 'verifications',
      operation_id: 'getKycTimeline',
      summary: 'Explain a verification',
      description:
        'Every attempt, provider answer, webhook and event of the verification, oldest first: the last `limit` of them, or the last before `before`. What the provider says after a decision is there too. Entries of one moment are never parted, so there may be a few more than `limit`. A full page links to what came before it.',
      params: idParams,
      querystring: timelinePage,
      response: { 200: z.array(timelineEntrySchema) },
      errors: ['kyc_not_found'],
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { id } = request.params
      await find({ tenant_id, id, job_id: null })
      const entries = await lists(request, reply, (lists_sql) =>
        listTimeline(lists_sql, { tenant_id, subject: 'kyc', subject_id: id }, request.query),
      )
      reply.headers(pageBefore(request.url, request.query.limit, entries))
      return entries
    },
  )
}
