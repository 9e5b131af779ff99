// Whose pages a request is about: it is let in for the tenant that the page shows, and what operators read is on record.
import type { FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import type { Sql } from '#core/db.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { findTenantsOf, type SignedIn } from '#domain/people/find.ts'
import { actorOf, inTenant, type DashboardContext } from './context.ts'
import { changes } from './guard.ts'

/** In which pages name the tenant that they show, by its id. */
const TENANT_HEADER = 'x-sluice-tenant'
/** How long the same look of an operator at a tenant counts as one. */
const SAME_LOOK_MS = 60_000
const MOST_LOOKS = 10_000

export function createTenantGate(
  sql: Sql,
  signedIn: (request: FastifyRequest) => Promise<SignedIn>,
): DashboardContext['gate'] {
  const looks = new Map<string, number>()
  return {
    async enter(request) {
      await checkTenant(sql, request, await signedIn(request))
      return inTenant(request)
    },
    async recordLook(request, tenant_id, act) {
      const by = actorOf(request, tenant_id)
      const look = `${by.actor_id} ${tenant_id} ${request.url}`
      const now = performance.now()
      if ((looks.get(look) ?? -Infinity) > now - SAME_LOOK_MS) return
      await appendAuditEntry(sql, by, act)
      if (looks.size >= MOST_LOOKS) looks.clear()
      looks.set(look, now)
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
  { user_id, tenant, sees_several }: SignedIn,
): Promise<void> {
  const named = request.headers[TENANT_HEADER]
  if (named === undefined) {
    if (tenant === null || !sees_several || !changes(request)) return
    throw new AppError('invalid_request', {
      param: TENANT_HEADER,
      message: `You have access to more than one tenant: give the id of the one that this request is for in the header ${TENANT_HEADER}.`,
    })
  }
  if (named === tenant?.id) return
  const shown = (await findTenantsOf(sql, user_id)).find(({ id }) => id === named)
  throw new AppError('conflict', {
    param: TENANT_HEADER,
    message: `This page shows ${shown?.slug ?? 'one tenant'}, but your session shows ${tenant === null ? 'none' : 'another one'}. Reload the page.`,
  })
}
