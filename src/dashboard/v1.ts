// Serves the API's own routes to who is signed in, under /api/v1: the same rules and queries, another way to be let in.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { buildApi } from '#api/app.ts'
import type { ApiContext } from '#api/context.ts'
import { SCOPES } from '#domain/areas.ts'
import { appendAuditEntry, type AuditAct } from '#domain/people/audit-log.ts'
import { actorOf, inTenant, type DashboardContext } from './context.ts'
import { assertMay } from './roles.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The audit entry of what this request asks for. */
    audit_entry?: number
  }
}

/** Filters that hold what people wrote, or where they are reached. */
const UNTOLD = ['email', 'phone', 'address', 'to', 'name', 'search', 'external_id']
const ALL_SCOPES = new Set(SCOPES)
/** What an entry tells of a body: amounts and decisions, no names, addresses or texts. */
const TOLD = [
  'amount_minor',
  'currency',
  'reason',
  'decision',
  'status',
  'types',
  'idempotency_key',
  'since',
  'until',
]
/** How long the same look of an operator at a tenant counts as one. */
const SAME_LOOK_MS = 60_000
const MOST_LOOKS = 10_000

/** Where the audit entry of an act is named in its answer. */
export const AUDIT_HEADER = 'x-audit-entry'

/**
 * Builds the API for sessions, and names its operations that change something. It does not listen: the dashboard passes
 * requests on.
 */
export async function buildApiForSessions(
  context: ApiContext,
  signedIn: DashboardContext['signedIn'],
): Promise<{ app: FastifyInstance; operations: string[] }> {
  const { sql } = context
  const looks = new Map<string, number>()
  const operations: string[] = []

  async function audit(request: FastifyRequest, act: AuditAct): Promise<number> {
    const { tenant } = inTenant(request)
    return await appendAuditEntry(sql, actorOf(request, tenant.id), act)
  }
  /** Operators read in the open: each page that they look at is on record, once a minute. */
  async function auditLook(request: FastifyRequest, act: AuditAct): Promise<void> {
    const { user_id, tenant } = inTenant(request)
    const look = `${user_id} ${tenant.id} ${request.url}`
    const now = performance.now()
    if ((looks.get(look) ?? -Infinity) > now - SAME_LOOK_MS) return
    await audit(request, act)
    if (looks.size >= MOST_LOOKS) looks.clear()
    looks.set(look, now)
  }

  const app = await buildApi(context, {
    onOperation({ method, name }) {
      if (method !== 'GET') operations.push(name)
    },
    async authenticate(request) {
      request.signed_in = await signedIn(request)
      const { user_id, tenant } = inTenant(request)
      if (changes(request) && !request.is404) assertMay(tenant.role, operationOf(request))
      return { key_id: user_id, tenant_id: tenant.id, scopes: ALL_SCOPES }
    },
    async before(request, reply) {
      if (request.is404) return
      const act: AuditAct = { action: operationOf(request), ...subjectOf(request) }
      if (!changes(request)) {
        if (inTenant(request).tenant.role === 'operator') await auditLook(request, act)
        return
      }
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

function changes({ method }: FastifyRequest): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

/** Its name in the document, or what was asked for. */
function operationOf({ method, routeOptions: { config, url } }: FastifyRequest): string {
  return config.literal?.operation_id ?? `${method} ${url ?? ''}`
}

function subjectOf({ params, body, routeOptions, query }: FastifyRequest): Omit<AuditAct, 'action'> {
  const ids = Object.entries((params ?? {}) as Record<string, string>)
  const [first] = ids
  const given = Object(body) as Record<string, unknown>
  const told = TOLD.flatMap((name) => {
    const value = given[name]
    return ['string', 'number', 'boolean'].includes(typeof value) ? [[name, String(value).slice(0, 255)]] : []
  })
  const filters = Object.entries((query ?? {}) as Record<string, unknown>).map(
    ([name, value]) => [name, UNTOLD.includes(name) ? '...' : value] as const,
  )
  const asked =
    filters.length > 0 ? { query: JSON.stringify(Object.fromEntries(filters)).slice(0, 1_000) } : {}
  return {
    ...(first !== undefined && {
      subject: routeOptions.config.literal?.tag ?? first[0],
      subject_id: first[1],
    }),
    details: { ...Object.fromEntries(told), ...asked },
  }
}
