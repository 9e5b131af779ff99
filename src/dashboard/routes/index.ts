// The routes of the dashboard that /v1 does not have: one line each.
import type { FastifyInstance } from 'fastify'
import type { DashboardContext } from '../context.ts'
import { changes } from '../guard.ts'
import { askedOf } from '../told.ts'
import { auditLogRoutes } from './audit-log.ts'
import { eventFigureRoutes } from './events.ts'
import { invitationRoutes } from './invitations.ts'
import { keyRoutes } from './keys.ts'
import { memberRoutes } from './members.ts'
import { operationsRoutes } from './operations/index.ts'
import { overviewRoutes } from './overview.ts'
import { sessionRoutes } from './session.ts'
import { signInRoutes } from './sign-in.ts'

/** Routes that answer something of the tenant that is shown. */
const TENANT_ROUTES: ((app: FastifyInstance, context: DashboardContext) => void)[] = [
  keyRoutes,
  memberRoutes,
  auditLogRoutes,
  overviewRoutes,
  eventFigureRoutes,
]
/** What the look of an operator is called in the audit log; another one by its route. */
const LOOKS: Record<string, string> = {
  '/api/keys': 'listApiKeys',
  '/api/members': 'listMembers',
  '/api/audit': 'listAuditEntries',
  '/api/overview': 'readOverview',
  '/api/find': 'search',
  '/api/stories/:id': 'readStory',
  '/api/events': 'listEvents',
  '/api/events/:id/deliveries': 'listEventDeliveries',
  '/api/webhook_endpoints/lines': 'listWebhookLines',
  '/api/webhook_endpoints/:id/hours': 'readWebhookFigures',
}

export const DASHBOARD_ROUTES: ((app: FastifyInstance, context: DashboardContext) => void)[] = [
  signInRoutes,
  sessionRoutes,
  invitationRoutes,
  tenantRoutes,
  operationsRoutes,
]

/** Lets in who sees the tenant, and records what operators see of it. */
function tenantRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { gate } = context
  root.register(async (app) => {
    app.addHook('preHandler', async (request) => {
      const { tenant } = await gate.enter(request)
      if (tenant.role !== 'operator' || changes(request)) return
      const { url = '' } = request.routeOptions
      await gate.recordLook(request, tenant.id, { action: LOOKS[url] ?? `GET ${url}`, ...askedOf(request) })
    })
    for (const add of TENANT_ROUTES) add(app, context)
  })
}
