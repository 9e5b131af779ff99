// The routes of the dashboard that /v1 does not have: one line each.
import type { FastifyInstance } from 'fastify'
import { inTenant, type DashboardContext } from '../context.ts'
import { changes } from '../guard.ts'
import { readInTurn } from '../reads.ts'
import { askedOf } from '../told.ts'
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
import { sessionRoutes } from './session.ts'
import { signInRoutes } from './sign-in.ts'

/** Routes that answer something of the tenant that is shown. */
const TENANT_ROUTES: ((app: FastifyInstance, context: DashboardContext) => void)[] = [
  keyRoutes,
  emailDomainRoutes,
  memberRoutes,
  memberInvitationRoutes,
  auditLogRoutes,
  overviewRoutes,
  eventFigureRoutes,
]

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the look of an operator is called in the audit log. */
    look?: string
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

/** Lets in who sees the tenant, and records what operators see of it. */
function tenantRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { gate, lists } = context
  root.register(async (app) => {
    app.addHook('preHandler', async (request) => {
      const { tenant } = await gate.enter(request)
      if (tenant.role !== 'operator' || changes(request)) return
      const { look } = request.routeOptions.config
      await gate.recordLook(request, tenant.id, { action: look!, ...askedOf(request) })
    })
    app.addHook('onRoute', ({ method, url, config }) => {
      if (method === 'GET' && config?.look === undefined)
        throw new Error(`GET ${url} needs a name for the audit log: config.look`)
    })
    readInTurn(app, lists, (request) => {
      const { user_id, tenant } = inTenant(request)
      return { key_id: user_id, tenant_id: tenant.id }
    })
    for (const add of TENANT_ROUTES) add(app, context)
  })
}
