// Jobs, for operators: search, count and details.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { requireResource } from '#api/refusals.ts'
import { findJob, jobDetailSchema } from '#domain/job-acts/find.ts'
import { countJobs, jobFiltersSchema, jobPageSchema, searchJobs } from '#domain/job-acts/search.ts'
import { actFilterSchema } from '#domain/operator-acts/act.ts'
import { findTenantId } from '#domain/tenants.ts'
import type { DashboardContext } from '../../context.ts'

const searchQuery = jobFiltersSchema.extend({
  after: z.string().max(200).optional(),
  before: z.string().max(200).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(50),
})
const countSchema = z.object({
  count: z.int(),
  /** True if there are more than `count`. */
  more: z.boolean(),
  /**
   * The search as the filter of an act, which never includes the job history. Null if an act cannot use the search: it
   * searches for a text or for finished jobs.
   */
  filter: actFilterSchema.nullable(),
})
const params = z.strictObject({ id: z.uuid().toLowerCase() })

export function jobRoutes(root: FastifyInstance, { gate }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get(
    '/api/ops/jobs',
    { schema: { querystring: searchQuery, response: { 200: jobPageSchema } } },
    async ({ query: { after, before, limit, ...filters }, sql }) =>
      searchJobs(sql, filters, { limit, ...(after && { after }), ...(before && { before }) }),
  )

  app.get(
    '/api/ops/jobs/count',
    { schema: { querystring: jobFiltersSchema, response: { 200: countSchema } } },
    async ({ query, sql }) => {
      const { tenant, ...filters } = query
      const tenant_id = tenant === undefined ? undefined : await findTenantId(sql, tenant)
      // An act supports fewer filters than a search. If it supports these, only jobs that an act may match are counted.
      const parsed = actFilterSchema.safeParse({ ...filters, ...(tenant_id && { tenant_id }) })
      const unknown_tenant = tenant !== undefined && tenant_id === undefined
      const filter = parsed.success && !unknown_tenant ? parsed.data : null
      return { ...(await countJobs(sql, query, { for_act: filter !== null })), filter }
    },
  )

  app.get(
    '/api/ops/jobs/:id',
    { schema: { params, response: { 200: jobDetailSchema } } },
    async (request) => {
      const job = requireResource(await findJob(request.sql, request.params.id), 'not_found')
      // The response has data of the tenant, such as amounts, so the access is recorded.
      if (job.tenant !== null)
        await gate.recordAccess(request, job.tenant_id, {
          action: 'readJob',
          subject: 'job',
          subject_id: job.id,
        })
      return job
    },
  )
}
