// Pauses of queues and tenants. No call starts more than a second after one is on record.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { QUEUES } from '#core/config/queues.ts'
import { AppError } from '#core/errors.ts'
import { findPauses, pauseJobs, pauseSchema, resumeJobs } from '#domain/jobs/pauses.ts'
import { reasonText } from '#domain/jobs/reason.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { actorOf, asOperator, type DashboardContext } from '../../context.ts'
import { AUDIT_HEADER } from '../../v1.ts'

const what = z.strictObject({ queue: z.enum(QUEUES).optional(), tenant_id: z.uuid().optional() })
const isSome = ({ queue, tenant_id }: z.output<typeof what>) => queue !== undefined || tenant_id !== undefined
const NOTHING = { error: 'must name a queue, a tenant, or both' }
const pauseBody = what.extend({ reason: reasonText }).refine(isSome, NOTHING)
const resumeBody = what.refine(isSome, NOTHING)

export function pauseRoutes(root: FastifyInstance, { sql }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get('/api/ops/pauses', { schema: { response: { 200: z.array(pauseSchema) } } }, (request) =>
    findPauses(request.sql),
  )

  app.post('/api/ops/pauses', { schema: { body: pauseBody } }, async (request, reply) => {
    const { email: who } = asOperator(request)
    const { reason, ...of } = request.body
    await sql.begin(async (tx) => {
      if (!(await pauseJobs(tx, { ...of, reason, who })))
        throw new AppError('conflict', { message: 'It is paused already.' })
      const by = actorOf(request, of.tenant_id ?? null)
      const entry = { action: 'jobs.pause', ...subjectOf(of), details: { ...of, reason } }
      reply.header(AUDIT_HEADER, await appendAuditEntry(tx, by, entry))
    })
    return await reply.code(204).send()
  })

  app.post('/api/ops/pauses/resume', { schema: { body: resumeBody } }, async (request, reply) => {
    asOperator(request)
    const of = request.body
    await sql.begin(async (tx) => {
      if (!(await resumeJobs(tx, of)))
        throw new AppError('conflict', { message: 'There is no such pause any more.' })
      const by = actorOf(request, of.tenant_id ?? null)
      const entry = { action: 'jobs.resume', ...subjectOf(of), details: of }
      reply.header(AUDIT_HEADER, await appendAuditEntry(tx, by, entry))
    })
    return await reply.code(204).send()
  })
}

function subjectOf({ queue, tenant_id }: z.output<typeof what>): { subject: string; subject_id: string } {
  return queue === undefined
    ? { subject: 'tenant', subject_id: tenant_id! }
    : { subject: 'queue', subject_id: queue }
}
