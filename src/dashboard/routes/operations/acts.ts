// Operator acts on jobs: requested, listed and canceled here, executed by workers.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { requireResource } from '#api/refusals.ts'
import { AppError } from '#core/errors.ts'
import {
  actItemSchema,
  requestedActSchema,
  requestAct,
  cancelAct,
  findAct,
  findActItems,
  listActs,
  operatorActSchema,
} from '#domain/operator-acts/act.ts'
import { findTenantOfFilter, findTenantOfJob } from '#domain/job-acts/find.ts'
import { countJobs } from '#domain/job-acts/search.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { actorOf, requireOperator, type DashboardContext } from '../../context.ts'
import { AUDIT_HEADER } from '../../on-record.ts'

const params = z.strictObject({ id: z.uuid().toLowerCase() })
const listQuery = z.strictObject({
  before: z.uuid().optional(),
  limit: z.coerce.number().int().min(1).max(100).default(25),
})
const itemsQuery = z.strictObject({
  after: z.uuid().optional(),
  outcome: z.enum(['done', 'refused', 'waiting']).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(50),
})

export function actRoutes(root: FastifyInstance, { sql, operatorSql }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.post(
    '/api/ops/acts',
    { schema: { body: requestedActSchema, response: { 202: operatorActSchema } } },
    async (request, reply) => {
      const { email: actor } = requireOperator(request)
      const requested = request.body
      const matched =
        requested.filter === undefined ? 1 : (await countMatching(requested.filter, operatorSql)).count
      const id = await sql.begin(async (tx) => {
        const id = await requestAct(tx, requested, { actor, matched })
        const { act, job_id, ...other_fields } = requested
        const details = { ...other_fields, matched, act_id: id }
        // An act on the jobs of one tenant is also in the audit log of that tenant.
        const tenant_id =
          job_id === undefined
            ? await findTenantOfFilter(tx, requested.filter ?? {})
            : await findTenantOfJob(tx, job_id)
        const by = actorOf(request, tenant_id)
        const entry = {
          action: `jobs.${act}`,
          subject: 'job' as const,
          ...(job_id && { subject_id: job_id }),
          details,
          expects_outcome: true,
        }
        reply.header(AUDIT_HEADER, await appendAuditEntry(tx, by, entry))
        return id
      })
      return await reply.code(202).send(requireResource(await findAct(sql, id), 'not_found'))
    },
  )

  app.get(
    '/api/ops/acts',
    { schema: { querystring: listQuery, response: { 200: z.array(operatorActSchema) } } },
    async (request) => listActs(request.sql, request.query),
  )

  app.get(
    '/api/ops/acts/:id',
    { schema: { params, response: { 200: operatorActSchema } } },
    async (request) => requireResource(await findAct(request.sql, request.params.id), 'not_found'),
  )

  app.get(
    '/api/ops/acts/:id/items',
    { schema: { params, querystring: itemsQuery, response: { 200: z.array(actItemSchema) } } },
    async (request) => findActItems(request.sql, request.params.id, request.query),
  )

  app.post('/api/ops/acts/:id/cancel', { schema: { params } }, async (request, reply) => {
    const { email } = requireOperator(request)
    const { id } = request.params
    await sql.begin(async (tx) => {
      if (!(await cancelAct(tx, id, email)))
        throw new AppError('conflict', { message: 'The act is finished or already canceled.' })
      const entry = { action: 'jobs.cancel_act', subject: 'act', subject_id: id } as const
      reply.header(AUDIT_HEADER, await appendAuditEntry(tx, actorOf(request, null), entry))
    })
    return await reply.code(204).send()
  })
}

async function countMatching(
  { tenant_id, ...filter }: NonNullable<z.output<typeof requestedActSchema>['filter']>,
  sql: DashboardContext['sql'],
): Promise<{ count: number }> {
  return await countJobs(sql, { ...filter, ...(tenant_id && { tenant: tenant_id }) }, { for_act: true })
}
