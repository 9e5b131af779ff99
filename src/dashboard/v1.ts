// Serves the routes of the API to signed-in users under /api/v1: the same rules and queries, authenticated by session.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { buildApi } from '#api/app.ts'
import type { ApiContext } from '#api/context.ts'
import { SCOPES } from '#domain/areas.ts'
import type { AuditAct } from '#domain/people/audit-log.ts'
import { requireTenant, type DashboardContext } from './context.ts'
import { isMutating } from './guard.ts'
import { recordAct, recordOutcome } from './on-record.ts'
import { assertAllowed, READ_ONLY_ACTS } from './roles.ts'
import { auditedParameters } from './audited-parameters.ts'

const ALL_SCOPES = new Set(SCOPES)

/**
 * Builds the API with session authentication. Also returns the names of its operations that change something. It does
 * not listen: the dashboard forwards requests to it.
 */
export async function buildApiForSessions(
  context: ApiContext,
  gate: DashboardContext['gate'],
): Promise<{ app: FastifyInstance; operations: string[] }> {
  const operations: string[] = []

  const app = await buildApi(context, {
    onOperation({ method, name }) {
      if (isMutating({ method })) operations.push(name)
    },
    async authenticate(request) {
      const { user_id, tenant } = await gate.enter(request)
      if (isMutating(request) && !request.is404) assertAllowed(tenant.role, operationName(request))
      const livemode = tenant.mode === 'live'
      return { key_id: user_id, tenant_id: tenant.id, scopes: ALL_SCOPES, livemode }
    },
    callerOf: ({ signed_in }) => ({ user_id: signed_in?.user_id }),
    async before(request, reply) {
      if (request.is404) return
      const act: AuditAct = { action: operationName(request), ...auditedParameters(request) }
      const { tenant } = requireTenant(request)
      if (!isAuditedAct(request)) {
        if (tenant.role === 'operator') await gate.recordAccess(request, tenant.id, act)
        return
      }
      await recordAct(context, request, reply, tenant.id, act)
    },
    after: (request, reply) => recordOutcome(context, request, reply),
  })
  return { app, operations }
}

/** Whether the audit log records a request as an act: its method is mutating and its operation changes something. */
export function isAuditedAct(request: FastifyRequest): boolean {
  return isMutating(request) && !request.is404 && !READ_ONLY_ACTS.has(operationName(request))
}

/** The name of the operation in the OpenAPI document, otherwise the method and the route. */
function operationName({ method, routeOptions: { config, url } }: FastifyRequest): string {
  return config.definition?.operation_id ?? `${method} ${url ?? ''}`
}
