// Whose pages a request is about: it is let in for the tenant that the page shows, and what operators read is on record.
import type { FastifyRequest } from 'fastify'
import { AppError } from '#core/errors.ts'
import type { Sql } from '#core/db.ts'
import { appendAuditEntry, type AuditAct } from '#domain/people/audit-log.ts'
import { findTenantsOf, type SignedIn } from '#domain/people/find.ts'
import { actorOf, inTenant, type DashboardContext } from './context.ts'

/** In which pages name the tenant that they show, by its id. */
const TENANT_HEADER = 'x-sluice-tenant'
/** How long the same look of an operator at a tenant counts as one. */
const SAME_LOOK_MS = 60_000
const MOST_LOOKS = 10_000
/** Filters that hold what people wrote, or where they are reached. */
const UNTOLD = ['email', 'phone', 'address', 'to', 'name', 'search', 'external_id', 'q', 'actor']

export function createTenantGate(
  sql: Sql,
  signedIn: (request: FastifyRequest) => Promise<SignedIn>,
): DashboardContext['gate'] {
  const looks = new Map<string, number>()
  return {
    async enter(request) {
      request.signed_in = await signedIn(request)
      await checkTenant(sql, request, request.signed_in)
      return inTenant(request)
    },
    async recordLook(request, tenant_id, act) {
      const { actor_id, ...by } = actorOf(request, tenant_id)
      const look = `${actor_id} ${tenant_id} ${request.url}`
      const now = performance.now()
      if ((looks.get(look) ?? -Infinity) > now - SAME_LOOK_MS) return
      await appendAuditEntry(sql, { actor_id, ...by }, act)
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
      message: `You see more than one tenant: name the one that this is for, by its id, in the header ${TENANT_HEADER}.`,
    })
  }
  if (named === tenant?.id) return
  const shown = (await findTenantsOf(sql, user_id)).find(({ id }) => id === named)
  throw new AppError('conflict', {
    param: TENANT_HEADER,
    message: `This page shows ${shown?.slug ?? 'one tenant'}, your session ${tenant === null ? 'none' : 'another tenant'}. Reload the page.`,
  })
}

export function changes({ method }: FastifyRequest): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

/** Which row a request is about, by the id in its path, and by which filters it asks, as an entry tells them. */
export function askedOf({ params, routeOptions, query }: FastifyRequest): Omit<AuditAct, 'action'> {
  const [first] = Object.entries((params ?? {}) as Record<string, string>)
  const filters = Object.entries((query ?? {}) as Record<string, unknown>).map(
    ([name, value]) => [name, UNTOLD.includes(name) ? '...' : value] as const,
  )
  return {
    ...(first !== undefined && {
      subject: routeOptions.config.literal?.tag ?? first[0],
      subject_id: first[1],
    }),
    details: filters.length > 0 ? { query: cut(JSON.stringify(Object.fromEntries(filters)), 1_000) } : {},
  }
}

/** The start of a text; half a character at its end, which the database does not take, is replaced. */
export function cut(text: string, length: number): string {
  return text.slice(0, length).toWellFormed()
}
