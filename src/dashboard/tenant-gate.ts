// Whose pages a request is about: it is let in for the tenant that the page shows, and what operators read is on record.
import type { FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import type { Sql } from '#core/db.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { findTenantsOf, type SignedIn } from '#domain/people/find.ts'
import { actorOf, requireTenant, type DashboardContext } from './context.ts'
import { isMutating } from './guard.ts'

/** In which pages name the tenant that they show, by its id. */
const TENANT_HEADER = 'x-sluice-tenant'
/** How long the same look of an operator at a tenant counts as one. */
const SAME_ACCESS_MS = 60_000
const MAX_RECENT_ACCESSES = 10_000

export function createTenantGate(
  sql: Sql,
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
      if ((recorded_at.get(access) ?? -Infinity) > now - SAME_ACCESS_MS) return
      await appendAuditEntry(sql, by, act)
      if (recorded_at.size >= MAX_RECENT_ACCESSES) recorded_at.clear()
      recorded_at.set(access, now)
    },
  }
}

/**
 * Throws `conflict` when the page shows another tenant than the session, as after another tab has chosen one. What
 * changes something has to name the tenant where somebody sees several.
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
      message: `You have access to more than one tenant: give the id of the one that this request is for in the header ${TENANT_HEADER}.`,
    })
  }
  if (requested_id === tenant?.id) return
  const shown = (await findTenantsOf(sql, user_id)).find(({ id }) => id === requested_id)
  throw new AppError('conflict', {
    param: TENANT_HEADER,
    message: `This page shows ${shown?.slug ?? 'one tenant'}, but your session shows ${tenant === null ? 'none' : 'another one'}. Reload the page.`,
  })
}
