// Admits a request to the tenant that its page shows, and records the access of operators.
import type { FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import type { Sql } from '#core/db.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'
import { findTenantsOf, type SignedIn } from '#domain/people/find.ts'
import { actorOf, requireTenant, type DashboardContext } from './context.ts'
import { isMutating } from './guard.ts'

/** Request header with the id of the tenant that the page shows. */
const TENANT_HEADER = 'x-sluice-tenant'
/** An operator's repeated access to one URL within this time is recorded once. */
const REPEATED_ACCESS_MS = 60_000
const MAX_RECENT_ACCESSES = 10_000

export function createTenantGate(
  { sql, database }: { sql: Sql; database: DatabaseWatch },
  requireSession: (request: FastifyRequest) => Promise<SignedIn>,
): DashboardContext['gate'] {
  const recorded_at = new Map<string, number>()
  return {
    async enter(request) {
      await checkTenant(sql, request, await requireSession(request))
      return requireTenant(request)
    },
    async recordAccess(request, tenant_id, act) {
      const by = actorOf(request, tenant_id)
      const access = `${by.actor_id} ${tenant_id} ${request.url}`
      const now = performance.now()
      if ((recorded_at.get(access) ?? -Infinity) > now - REPEATED_ACCESS_MS) return
      await database.unlessMoved(() => appendAuditEntry(sql, by, act))
      if (recorded_at.size >= MAX_RECENT_ACCESSES) recorded_at.clear()
      recorded_at.set(access, now)
    },
  }
}

/**
 * Throws `conflict` if the page shows another tenant than the session has selected, for example after a switch in
 * another tab. Throws `invalid_request` for a mutating request without the header, if the user has access to several
 * tenants.
 */
export async function checkTenant(
  sql: Sql,
  request: FastifyRequest,
  { user_id, tenant, has_several_tenants }: SignedIn,
): Promise<void> {
  const requested_id = request.headers[TENANT_HEADER]
  if (requested_id === undefined) {
    if (tenant === null || !has_several_tenants || !isMutating(request)) return
    throw new AppError('invalid_request', {
      param: TENANT_HEADER,
      message: `You have access to several tenants: send the id of the tenant of this request in the header ${TENANT_HEADER}.`,
    })
  }
  if (requested_id === tenant?.id) return
  const page_tenant = (await findTenantsOf(sql, user_id)).find(
    ({ id, twin_id }) => id === requested_id || twin_id === requested_id,
  )
  throw new AppError('conflict', {
    param: TENANT_HEADER,
    message: `This page shows ${page_tenant?.slug ?? 'one tenant'}, but your session has selected ${tenant === null ? 'none' : 'another one'}. Reload the page.`,
  })
}
