// Serves the API's own routes to who is signed in, under /api/v1: the same rules and queries, another way to be let in.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { buildApi } from '#api/app.ts'
import type { ApiContext } from '#api/context.ts'
import { SCOPES } from '#domain/areas.ts'
import { appendAuditEntry, type AuditAct } from '#domain/people/audit-log.ts'
import { createLimit } from '#api/limit.ts'
import { actorOf, inTenant, type DashboardContext } from './context.ts'
import { changes } from './guard.ts'
import { assertMay, READS } from './roles.ts'
import { askedOf } from './told.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The audit entry of what this request asks for. */
    audit_entry?: number
  }
}

const ALL_SCOPES = new Set(SCOPES)
/** Acts of a user: what is on record can never be taken off it. */
const ACTS = { rps: 1, burst: 120, most: 20_000 }
/** Where the audit entry of an act is named in its answer. */
export const AUDIT_HEADER = 'x-audit-entry'

/**
 * Builds the API for sessions, and names its operations that change something. It does not listen: the dashboard passes
 * requests on.
 */
export async function buildApiForSessions(
  context: ApiContext,
  gate: DashboardContext['gate'],
): Promise<{ app: FastifyInstance; operations: string[] }> {
  const { sql } = context
  const operations: string[] = []
  const limitActs = createLimit(ACTS)

  async function audit(request: FastifyRequest, act: AuditAct): Promise<number> {
    const { tenant } = inTenant(request)
    return await appendAuditEntry(sql, actorOf(request, tenant.id), act)
  }

  const app = await buildApi(context, {
    onOperation({ method, name }) {
      if (changes({ method })) operations.push(name)
    },
    async authenticate(request) {
      const { user_id, tenant } = await gate.enter(request)
      if (changes(request) && !request.is404) assertMay(tenant.role, operationOf(request))
      return { key_id: user_id, tenant_id: tenant.id, scopes: ALL_SCOPES }
    },
    callerOf: ({ signed_in }) => ({ user_id: signed_in?.user_id }),
    async before(request, reply) {
      if (request.is404) return
      const act: AuditAct = { action: operationOf(request), ...askedOf(request) }
      const { user_id, tenant } = inTenant(request)
      if (!changes(request) || READS.has(act.action)) {
        if (tenant.role === 'operator') await gate.recordLook(request, tenant.id, act)
        return
      }
      limitActs(user_id, reply)
      request.audit_entry = await audit(request, act)
      reply.header(AUDIT_HEADER, request.audit_entry)
    },
    async after(request, reply) {
      const { audit_entry: answers, subject_id } = request
      if (answers === undefined) return
      request.audit_entry = undefined
      const details = { status: reply.statusCode, ...(subject_id !== undefined && { id: subject_id }) }
      // What was asked for is on record; that its outcome is not keeps nobody from their answer.
      await audit(request, { action: operationOf(request), answers, details }).catch((err: unknown) =>
        context.log.warn({ err, audit_entry: answers }, 'the outcome of an act was not recorded'),
      )
    },
  })
  return { app, operations }
}

/** Its name in the document, or what was asked for. */
function operationOf({ method, routeOptions: { config, url } }: FastifyRequest): string {
  return config.literal?.operation_id ?? `${method} ${url ?? ''}`
}
