// Serves the API's own routes to who is signed in, under /api/v1: the same rules and queries, another way to be let in.
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
 * Builds the API for sessions, and names its operations that change something. It does not listen: the dashboard passes
 * requests on.
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
      return { key_id: user_id, tenant_id: tenant.id, scopes: ALL_SCOPES }
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

/** Whether a request changes something, so that it is put on record as an act. */
export function isAuditedAct(request: FastifyRequest): boolean {
  return isMutating(request) && !request.is404 && !READ_ONLY_ACTS.has(operationName(request))
}

/** Its name in the document, or what was asked for. */
function operationName({ method, routeOptions: { config, url } }: FastifyRequest): string {
  return config.definition?.operation_id ?? `${method} ${url ?? ''}`
}
