// Pauses of queues and tenants. No provider call starts more than a second after a pause is recorded.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { QUEUES } from '#core/config/queues.ts'
import { AppError } from '#core/errors.ts'
import { findPauses, pauseJobs, pauseSchema, resumeJobs } from '#domain/jobs/pauses.ts'
import { reasonText } from '#domain/jobs/reason.ts'
import { actorOf, type DashboardContext } from '../../context.ts'
import { AUDIT_HEADER } from '../../on-record.ts'

const pauseTarget = z.strictObject({ queue: z.enum(QUEUES).optional(), tenant_id: z.uuid().optional() })
const hasTarget = ({ queue, tenant_id }: z.output<typeof pauseTarget>) =>
  queue !== undefined || tenant_id !== undefined
const NO_TARGET = { error: 'must name a queue, a tenant, or both' }
const pauseBody = pauseTarget.extend({ reason: reasonText }).refine(hasTarget, NO_TARGET)
const resumeBody = pauseTarget.refine(hasTarget, NO_TARGET)

export function pauseRoutes(root: FastifyInstance, { sql }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get('/api/ops/pauses', { schema: { response: { 200: z.array(pauseSchema) } } }, (request) =>
    findPauses(request.sql),
  )

  app.post('/api/ops/pauses', { schema: { body: pauseBody } }, async (request, reply) => {
    const by = actorOf(request, request.body.tenant_id ?? null)
    const entry = await pauseJobs(sql, request.body, by)
    if (entry === undefined)
      throw new AppError('conflict', { message: 'The queue or tenant is already paused.' })
    return await reply.code(204).header(AUDIT_HEADER, entry).send()
  })

  app.post('/api/ops/pauses/resume', { schema: { body: resumeBody } }, async (request, reply) => {
    const by = actorOf(request, request.body.tenant_id ?? null)
    const entry = await resumeJobs(sql, request.body, by)
    if (entry === undefined) throw new AppError('conflict', { message: 'This pause no longer exists.' })
    return await reply.code(204).header(AUDIT_HEADER, entry).send()
  })
}
