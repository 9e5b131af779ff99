// Figures for operators: queues, tenants by share, providers, processes, schedules, drifts and parked notifications.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { QUEUES } from '#core/config/queues.ts'
import {
  findAllDrifts,
  findParkedNotifications,
  parkedNotificationSchema,
  tenantsDriftSchema,
} from '#domain/operations/unresolved.ts'
import { figureWindow } from '#domain/operations/figures.ts'
import { findNameFigures, nameFiguresSchema } from '#domain/operations/job-names.ts'
import { findProcesses, processSchema } from '#domain/operations/processes.ts'
import { findProviderHealth, providerHealthSchema } from '#domain/operations/provider-health.ts'
import { findQueueFigures, queuesFiguresSchema } from '#domain/operations/queues.ts'
import { findSchedules, scheduleSchema } from '#domain/operations/schedules.ts'
import { findSeries, seriesQuerySchema, seriesSchema } from '#domain/operations/series.ts'
import { findTenantShares, tenantSharesSchema } from '#domain/operations/tenant-shares.ts'
import { driftState, driftSubject } from '#domain/reconciliation/drift.ts'
import { listTenants } from '#domain/tenants.ts'
import type { DashboardContext } from '../../context.ts'
import { auditedParameters } from '../../audited-parameters.ts'

const queue = z.enum(QUEUES)
const limit = z.coerce.number().int().min(1).max(100).default(50)
const namesQuery = z.strictObject({ window: figureWindow.default('1h') })
const sharesQuery = z.strictObject({ queue: queue.optional(), window: figureWindow.default('1h') })
const driftsQuery = z.strictObject({
  state: driftState.optional(),
  subject: driftSubject.optional(),
  tenant_id: z.uuid().optional(),
  before: z.uuid().optional(),
  limit,
})
const parkedQuery = z.strictObject({
  reason: z.string().max(100).optional(),
  before: z.uuid().optional(),
  limit,
})
const tenantsQuery = z.strictObject({ search: z.string().trim().max(100).default('') })
const tenantSchema = z.object({ id: z.uuid(), slug: z.string(), name: z.string() })
const responding = <Schema extends z.ZodType>(schema: Schema) => ({ response: { 200: schema } })

export function figureRoutes(root: FastifyInstance, { gate }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get('/api/ops/queues', { schema: responding(queuesFiguresSchema) }, ({ sql }) => findQueueFigures(sql))
  app.get(
    '/api/ops/queues/:queue/names',
    {
      schema: {
        params: z.strictObject({ queue }),
        querystring: namesQuery,
        ...responding(nameFiguresSchema),
      },
    },
    async ({ params, query, sql }) => findNameFigures(sql, { ...params, ...query }),
  )
  app.get(
    '/api/ops/series',
    { schema: { querystring: seriesQuerySchema, ...responding(seriesSchema) } },
    async ({ query, sql }) => findSeries(sql, query),
  )
  app.get(
    '/api/ops/shares',
    { schema: { querystring: sharesQuery, ...responding(tenantSharesSchema) } },
    async ({ query, sql }) => findTenantShares(sql, query),
  )
  app.get(
    '/api/ops/tenants',
    { schema: { querystring: tenantsQuery, ...responding(z.array(tenantSchema)) } },
    async ({ query, sql }) => listTenants(sql, query.search, 50),
  )
  app.get('/api/ops/providers', { schema: responding(providerHealthSchema) }, ({ sql }) =>
    findProviderHealth(sql),
  )
  app.get('/api/ops/processes', { schema: responding(z.array(processSchema)) }, ({ sql }) =>
    findProcesses(sql),
  )
  app.get('/api/ops/schedules', { schema: responding(z.array(scheduleSchema)) }, ({ sql }) =>
    findSchedules(sql),
  )
  app.get(
    '/api/ops/drifts',
    { schema: { querystring: driftsQuery, ...responding(z.array(tenantsDriftSchema)) } },
    async (request) => {
      const { query, sql } = request
      const drifts = await findAllDrifts(sql, query)
      if (query.tenant_id !== undefined && drifts.length > 0)
        await gate.recordAccess(request, query.tenant_id, {
          action: 'listDrifts',
          ...auditedParameters(request),
        })
      return drifts
    },
  )
  app.get(
    '/api/ops/parked',
    { schema: { querystring: parkedQuery, ...responding(z.array(parkedNotificationSchema)) } },
    async ({ query, sql }) => findParkedNotifications(sql, query),
  )
}
