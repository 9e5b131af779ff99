// What the dashboard's routes share.
import type { FastifyRequest } from 'fastify'
import type { ApiContext } from '#api/context.ts'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import type { Actor, AuditAct } from '#domain/people/audit-log.ts'
import type { SignedIn } from '#domain/people/find.ts'
import type { MemberRole } from '#domain/people/role.ts'
import type { Sessions } from './sessions.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who is signed in; set where a route needs somebody. */
    signed_in?: SignedIn
    /** What becomes of the session's cookie, where it was prolonged. */
    set_cookies?: string[]
  }
}

export type DashboardContext = ApiContext & {
  sessions: Sessions
  /** The operations of /v1 that change something, by name. */
  operations: readonly string[]
  /** Connections that tenants cannot fill. */
  operatorSql: Sql
  /** Who a request is by. Throws `rate_limited` when too many cookies without a session came from its address. */
  findSession: (request: FastifyRequest, options?: { refresh: boolean }) => Promise<ActiveSession | undefined>
  /** Who is signed in by cookies that we have given. */
  findIssuedSession: (cookies: string[]) => Promise<ActiveSession | undefined>
  /**
   * Throws `unauthorized` unless somebody is signed in, who is then the request's `signed_in`. `refresh`: `set_cookies` of the
   * request is answered.
   */
  requireSession: (request: FastifyRequest, options?: { refresh: boolean }) => Promise<SignedIn>
  /** Lets requests in for a tenant. */
  gate: {
    /** Who is signed in, in the tenant that the request is for. Throws `conflict` when the session shows another one. */
    enter(request: FastifyRequest): Promise<TenantUser>
    /** Operators read in the open: each page of a tenant that they look at is on record, once a minute. */
    recordAccess(request: FastifyRequest, tenant_id: string, act: AuditAct): Promise<void>
  }
  /** Providers that are emulated here. */
  emulators: string[]
  version: string
}

/** Who is signed in, and what becomes of their cookies. */
export type ActiveSession = { signed_in: SignedIn; set_cookies: string[] }

/** Somebody who is signed in, with the tenant whose pages they see. */
export type TenantUser = SignedIn & { tenant: NonNullable<SignedIn['tenant']> }

/** Throws `unauthorized` unless somebody is signed in, and `forbidden` when they see no tenant. */
export function requireTenant(request: FastifyRequest): TenantUser {
  const signed_in = requireUser(request)
  const { tenant } = signed_in
  if (tenant === null)
    throw new AppError('forbidden', {
      message: 'Your session shows no tenant. Choose one that you are a member of.',
    })
  return { ...signed_in, tenant }
}

/** A member of the tenant, not an operator who looks at it. */
export function requireMember(request: FastifyRequest): TenantUser & { role: MemberRole } {
  const signed_in = requireTenant(request)
  const { role } = signed_in.tenant
  if (role === 'operator')
    throw new AppError('forbidden', {
      message: 'You are looking at this tenant as an operator and are not a member of it.',
    })
  return { ...signed_in, role }
}

/** Throws `forbidden` unless they are an operator of the installation. */
export function requireOperator(request: FastifyRequest): SignedIn {
  const signed_in = requireUser(request)
  if (!signed_in.is_operator)
    throw new AppError('forbidden', {
      message: 'Only operators of this installation may see this.',
      context: { roles: ['operator'] },
    })
  return signed_in
}

/**
 * Whether people can be invited by email; else they are given a link. Without DASHBOARD_URL only a request says where a
 * link would lead, and who makes it would choose: so none is mailed, unless nobody else reaches this machine.
 */
export function canEmailInvitations({ config, areas }: ApiContext): boolean {
  const { DASHBOARD_URL, HOST, EMAIL_FROM } = config
  const has_trusted_origin = DASHBOARD_URL !== undefined || /^(localhost|127\..*|::1)$/.test(HOST)
  return (
    has_trusted_origin && EMAIL_FROM !== undefined && !areas.channels_without_credentials.includes('email')
  )
}

/** Who acts, for the audit log; `tenant_id`: whose pages they act on. */
export function actorOf(request: FastifyRequest, tenant_id: string | null): Actor {
  return { tenant_id, actor_id: requireUser(request).user_id, request_id: request.id, address: request.ip }
}

function requireUser({ signed_in }: FastifyRequest): SignedIn {
  if (signed_in === undefined) throw new AppError('unauthorized', { message: 'Sign in first.' })
  return signed_in
}
