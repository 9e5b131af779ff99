// The dashboard's own routes, which /v1 lacks.
import type { FastifyInstance } from 'fastify'
import { requireTenant, type DashboardContext } from '../context.ts'
import { isMutating } from '../guard.ts'
import { limitReads } from '../reads.ts'
import { auditedParameters } from '../audited-parameters.ts'
import { accountRoutes } from './account.ts'
import { auditLogRoutes } from './audit-log.ts'
import { emailDomainRoutes } from './email-domains.ts'
import { eventFigureRoutes } from './events.ts'
import { invitationRoutes } from './invitations.ts'
import { keyRoutes } from './keys.ts'
import { memberInvitationRoutes } from './member-invitations.ts'
import { memberRoutes } from './members.ts'
import { operationsRoutes } from './operations/index.ts'
import { overviewRoutes } from './overview.ts'
import { sandboxRoutes } from './sandbox.ts'
import { sessionRoutes } from './session.ts'
import { signInRoutes } from './sign-in.ts'

/** Routes about the selected tenant. */
const TENANT_ROUTES: ((app: FastifyInstance, context: DashboardContext) => void)[] = [
  keyRoutes,
  emailDomainRoutes,
  memberRoutes,
  memberInvitationRoutes,
  auditLogRoutes,
  overviewRoutes,
  eventFigureRoutes,
  sandboxRoutes,
]

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Name of the action in the audit log if an operator reads this route. */
    audit_action?: string
  }
}

export const DASHBOARD_ROUTES: ((app: FastifyInstance, context: DashboardContext) => void)[] = [
  signInRoutes,
  accountRoutes,
  sessionRoutes,
  invitationRoutes,
  tenantRoutes,
  operationsRoutes,
]

/** Admits users with access to the tenant, and records the access of operators. */
function tenantRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { gate, runList } = context
  root.register(async (app) => {
    app.addHook('preHandler', async (request) => {
      const { tenant } = await gate.enter(request)
      if (tenant.role !== 'operator' || isMutating(request)) return
      const { audit_action } = request.routeOptions.config
      await gate.recordAccess(request, tenant.id, { action: audit_action!, ...auditedParameters(request) })
    })
    app.addHook('onRoute', ({ method, url, config }) => {
      if (method === 'GET' && config?.audit_action === undefined)
        throw new Error(`GET ${url} needs a name for the audit log: set config.audit_action`)
    })
    limitReads(app, runList, (request) => {
      const { user_id, tenant } = requireTenant(request)
      return { key_id: user_id, tenant_id: tenant.id }
    })
    for (const add of TENANT_ROUTES) add(app, context)
  })
}
