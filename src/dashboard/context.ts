// The context of the dashboard's routes, and their checks for a user, a tenant, a member or an operator.
import type { FastifyRequest } from 'fastify'
import type { ApiContext } from '#api/context.ts'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import type { Actor, AuditAct } from '#domain/people/audit-log.ts'
import type { SignedIn } from '#domain/people/find.ts'
import type { MemberRole } from '#domain/people/role.ts'
import type { Sandbox } from './sandbox.ts'
import type { Sessions } from './sessions.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The signed-in user. Set on routes that require one. */
    signed_in?: SignedIn
    /** `set-cookie` headers of a refreshed session. */
    set_cookies?: string[]
  }
}

export type DashboardContext = ApiContext & {
  sessions: Sessions
  /** Names of the operations of /v1 that change something. */
  operations: readonly string[]
  /** Connections reserved for operators. */
  operatorSql: Sql
  /** Finds the session of a request. Throws `rate_limited` after too many invalid cookies from its address. */
  findSession: (request: FastifyRequest, options?: { refresh: boolean }) => Promise<ActiveSession | undefined>
  /** Finds the session of cookies that better-auth has just set. */
  findIssuedSession: (cookies: string[]) => Promise<ActiveSession | undefined>
  /**
   * Returns the signed-in user and sets `request.signed_in`. Throws `unauthorized` without a session. `refresh`: the
   * session may be extended; the caller must send `request.set_cookies`.
   */
  requireSession: (request: FastifyRequest, options?: { refresh: boolean }) => Promise<SignedIn>
  /** Admits requests to a tenant. */
  gate: {
    /**
     * Returns the user and the tenant of a request. Throws `conflict` if the page of the request shows another tenant
     * than the session has selected.
     */
    enter(request: FastifyRequest): Promise<TenantUser>
    /** Records an operator's access to a tenant in the audit log, at most once a minute for each URL. */
    recordAccess(request: FastifyRequest, tenant_id: string, act: AuditAct): Promise<void>
  }
  /** The sandbox of tenants in test mode. */
  sandbox: Sandbox
  /** Names of the emulated providers. */
  emulators: string[]
  version: string
}

/** The user of a session, and the `set-cookie` headers that refresh it. */
export type ActiveSession = { signed_in: SignedIn; set_cookies: string[] }

/** A signed-in user and the tenant of the request. */
export type TenantUser = SignedIn & { tenant: NonNullable<SignedIn['tenant']> }

/** Throws `unauthorized` without a signed-in user, and `forbidden` without a selected tenant. */
export function requireTenant(request: FastifyRequest): TenantUser {
  const signed_in = requireUser(request)
  const { tenant, tenant_without_twin } = signed_in
  if (tenant === null)
    throw new AppError('forbidden', {
      message:
        tenant_without_twin === null
          ? 'No tenant is selected. Choose one that you are a member of.'
          : 'This tenant has no test mode yet. Open its test mode in the dashboard first.',
    })
  return { ...signed_in, tenant }
}

/** Throws `forbidden` without a selected tenant, and `test_mode_only` for a request of live mode. */
export function requireTestTenant(request: FastifyRequest): TenantUser {
  const signed_in = requireTenant(request)
  if (signed_in.tenant.mode === 'live')
    throw new AppError('test_mode_only', { message: 'The sandbox belongs to test mode.' })
  return signed_in
}

/** Throws `forbidden` for an operator who is not a member of the tenant. */
export function requireMember(request: FastifyRequest): TenantUser & { role: MemberRole } {
  const signed_in = requireTenant(request)
  const { role } = signed_in.tenant
  if (role === 'operator')
    throw new AppError('forbidden', {
      message: 'You view this tenant as an operator. Only its members may do this.',
    })
  return { ...signed_in, role }
}

/** Throws `forbidden` if the user is not an operator of the installation. */
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
 * Whether invitations are emailed; otherwise the inviter passes on a link. Without DASHBOARD_URL the host of a link
 * would come from the request, which can be forged, so invitations are emailed only if the dashboard listens on
 * loopback.
 */
export function canEmailInvitations({ config, areas }: ApiContext): boolean {
  const { DASHBOARD_URL, HOST, EMAIL_FROM } = config
  const has_trusted_origin = DASHBOARD_URL !== undefined || /^(localhost|127\..*|::1)$/.test(HOST)
  return (
    has_trusted_origin && EMAIL_FROM !== undefined && !areas.channels_without_credentials.includes('email')
  )
}

/** The actor of an audit entry. `tenant_id`: the tenant of the entry; null: the installation. */
export function actorOf(request: FastifyRequest, tenant_id: string | null): Actor {
  return { tenant_id, actor_id: requireUser(request).user_id, request_id: request.id, address: request.ip }
}

function requireUser({ signed_in }: FastifyRequest): SignedIn {
  if (signed_in === undefined) throw new AppError('unauthorized', { message: 'Sign in first.' })
  return signed_in
}
